import { createRequire } from 'node:module';
import pg from 'pg';
import PgBoss from 'pg-boss';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../../scripts/services/index.ts';
import { Engine } from '../../engine/engine.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { nodeWorld } from '../../runtime/node-world.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import { openPostgresStore, type PostgresStore } from '../../stores/postgres/index.ts';
import { defineJob, type TransactionalQueue } from '../job-type.ts';
import { JobManager } from '../managers/manager.ts';
import { submissionOf } from '../submission.ts';
import { type BossClient, type BossJobData, pgBossQueue } from './index.ts';

let server: PostgresServer;
let pool: pg.Pool;
let boss: PgBoss;
let store: PostgresStore;
const world = nodeWorld();

beforeAll(async () => {
  server = await startPostgres();
  pool = new pg.Pool({ connectionString: server.url, max: 20 });
  pool.on('error', () => {});
  boss = new PgBoss({ connectionString: server.url, supervise: false, schedule: false });
  boss.on('error', () => {});
  await boss.start();
  await boss.createQueue('mail');
  store = await openPostgresStore({ pool });
});
afterAll(async () => {
  await boss?.stop({ graceful: false });
  await store?.close();
  await pool?.end();
  await server?.dispose();
});

function queue(): TransactionalQueue<BossClient> {
  return pgBossQueue({ boss, queue: 'mail', pool });
}

function startManager(port = queue()) {
  const engine = new Engine({ store, world, platform: nodePlatform() });
  const mail = defineJob({ type: 'mail', rerun: 'safe', parse: refuseNothing, queue: port });
  return new JobManager({ engine, world, types: [mail] });
}

function refuseNothing(payload: unknown) {
  if (payload === 'nothing') throw new Error('there must be something to send');
  return payload;
}

let sequence = 0;
function submission(payload: unknown) {
  sequence += 1;
  const key = `host:${sequence}:a1b2c3d4e5f60718`;
  return submissionOf({ tenant: 'shop', key, type: 'mail', payload });
}

async function countJobs(): Promise<number> {
  const { rows } = await pool.query(
    `select count(*)::int as n from pgboss.job where name = 'mail'`,
  );
  return (rows[0] as { n: number }).n;
}

describe('jobs on pg-boss', () => {
  it('[J8] are refused at once where pg-boss is too old, with the versions that fit', () => {
    const PgBoss9 = createRequire(import.meta.url)('pg-boss9') as typeof PgBoss;
    const old = new PgBoss9({ connectionString: server.url });
    expect(() => pgBossQueue({ boss: old, queue: 'mail', pool })).toThrow(
      'install pg-boss 10, 11 or 12',
    );
  });

  it('[J8] are run by its workers, and show their state, attempts and result', async () => {
    const manager = startManager();
    const asked = submission({ to: 'someone' });
    const answer = await manager.submit(asked);
    expect(await manager.submit(asked)).toMatchObject({ wasDuplicate: true });
    const jobId = 'jobId' in answer ? answer.jobId : '';
    expect(await manager.find('shop', jobId)).toMatchObject({
      state: 'queued',
      queue: 'pg-boss:mail',
      attempts: 0,
    });
    const [job] = await boss.fetch<BossJobData>('mail');
    expect(job?.data).toMatchObject({ tenant: 'shop', payload: { to: 'someone' } });
    expect(await manager.find('shop', jobId)).toMatchObject({ state: 'running', attempts: 1 });
    await boss.complete('mail', jobId, { sent: true });
    expect(await manager.find('shop', jobId)).toMatchObject({
      state: 'succeeded',
      result: { sent: true },
    });
    await manager.close(0);
  });

  it('[J8] are created once by 200 simultaneous retries at two managers', async () => {
    const managers = [startManager(), startManager()];
    const before = await countJobs();
    const asked = submission({ to: 'all' });
    const answers = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        for (;;) {
          const answer = await managers[i % 2]!.submit(asked);
          if (answer.status !== 'refused') return answer;
        }
      }),
    );
    expect(new Set(answers.map((answer) => 'jobId' in answer && answer.jobId)).size).toBe(1);
    expect(await countJobs()).toBe(before + 1);
  });

  it('[J8] share one commit with their reservation: when it fails, there is neither', async () => {
    const broken = queue();
    const manager = startManager({
      ...broken,
      async enqueueWithin(tx, job) {
        await broken.enqueueWithin(tx, job);
        throw new Error('the process has second thoughts');
      },
    });
    const before = await countJobs();
    const asked = submission({ to: 'nobody' });
    await expect(manager.submit(asked)).rejects.toThrow('second thoughts');
    expect(await countJobs()).toBe(before);
    expect(await startManager().submit(asked)).toMatchObject({ wasDuplicate: false });
    expect(await countJobs()).toBe(before + 1);
  });

  it('[J8] survive the loss of the reply to their commit: the retry finds them', async () => {
    const real = queue();
    const manager = startManager({
      ...real,
      async transact(work) {
        await real.transact(work);
        throw new Error('connection lost after commit');
      },
    });
    const before = await countJobs();
    const asked = submission({ to: 'once' });
    const first = await manager.submit(asked);
    const again = await startManager().submit(asked);
    expect(first).toMatchObject({ status: 'committed' });
    expect(again).toMatchObject({ jobId: 'jobId' in first && first.jobId, wasDuplicate: true });
    expect(await countJobs()).toBe(before + 1);
  });

  it('[J8] that are refused leave a rejection and no job', async () => {
    const manager = startManager();
    const before = await countJobs();
    const asked = submission('nothing');
    expect(await manager.submit(asked)).toMatchObject({ status: 'rejected', wasDuplicate: false });
    expect(await manager.submit(asked)).toMatchObject({ status: 'rejected', wasDuplicate: true });
    expect(await countJobs()).toBe(before);
  });

  it('[J8] need a store in the same database', () => {
    const engine = new Engine({ store: memoryStore(), world, platform: nodePlatform() });
    const mail = defineJob({ type: 'mail', rerun: 'safe', parse: refuseNothing, queue: queue() });
    expect(() => new JobManager({ engine, world, types: [mail] })).toThrow('use postgres');
  });

  it('[J8] are cancelled in the queue', async () => {
    const manager = startManager();
    const answer = await manager.submit(submission({ to: 'no one' }));
    const jobId = 'jobId' in answer ? answer.jobId : '';
    expect(await manager.cancel('shop', jobId)).toBe('cancelled');
    expect(await manager.find('shop', jobId)).toMatchObject({ state: 'cancelled' });
  });
});
