import { Queue, Worker } from 'bullmq';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../../scripts/services/index.ts';
import { Engine } from '../../engine/engine.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { nodeWorld } from '../../runtime/node-world.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import { defineJob } from '../job-type.ts';
import { JobManager } from '../managers/manager.ts';
import { submissionOf } from '../submission.ts';
import { type BullJobData, bullmqQueue } from './index.ts';

let redis: RedisServer;
let queue: Queue;
const world = nodeWorld();

beforeAll(async () => {
  redis = await startRedis();
  queue = new Queue('mail', { connection: connection() });
});
afterAll(async () => {
  await queue?.close();
  await redis?.dispose();
});

function connection() {
  return { host: '127.0.0.1', port: redis.port, maxRetriesPerRequest: null };
}

function startManager(store = memoryStore()) {
  const engine = new Engine({ store, world, platform: nodePlatform() });
  const mail = defineJob({
    type: 'mail',
    rerun: 'safe',
    parse: (payload) => payload,
    queue: bullmqQueue({ queue }),
    backoffMs: 50,
  });
  return new JobManager({ engine, world, types: [mail], rescanMs: 200 });
}

let sequence = 0;
function submission(payload: unknown) {
  sequence += 1;
  const key = `host:${sequence}:a1b2c3d4e5f60718`;
  return submissionOf({ tenant: 'shop', key, type: 'mail', payload });
}

async function until<T>(read: () => Promise<T>, isRight: (value: T) => boolean): Promise<T> {
  for (let i = 0; i < 400; i += 1) {
    const value = await read();
    if (isRight(value)) return value;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`still ${JSON.stringify(await read())}`);
}

describe('jobs on BullMQ', () => {
  it('[J8] are run by its workers, and show their state, attempts and result', async () => {
    const manager = startManager();
    const asked = submission({ to: 'someone' });
    const answer = await manager.submit(asked);
    expect(await manager.submit(asked)).toMatchObject({ wasDuplicate: true });
    const jobId = 'jobId' in answer ? answer.jobId : '';
    const read = () => manager.find('shop', jobId);
    await until(read, (job) => job?.queue === 'bullmq:mail');
    expect(await read()).toMatchObject({ state: 'queued', type: 'mail' });

    const seen: BullJobData[] = [];
    const worker = new Worker<BullJobData>(
      'mail',
      async ({ data }) => {
        seen.push(data);
        return { sent: true };
      },
      { connection: connection() },
    );
    await until(read, (job) => job?.state === 'succeeded');
    expect(await read()).toMatchObject({ attempts: 1, result: { sent: true } });
    expect(seen).toMatchObject([{ tenant: 'shop', payload: { to: 'someone' } }]);
    await worker.close();
    await manager.close(0);
  });

  it('[J8] are there once, however often they are handed over', async () => {
    const port = bullmqQueue({ queue });
    const job = {
      jobId: '00000000-0000-4000-8000-000000000001',
      tenant: 'shop',
      type: 'mail',
      payload: '1',
      derivedKey: 'k',
    };
    const before = await queue.count();
    for (let i = 0; i < 5; i += 1) await port.enqueue(job);
    expect(await queue.count()).toBe(before + 1);
    expect(await port.cancel(job.jobId)).toBe(true);
    expect(await port.find(job.jobId)).toBeNull();
  });

  it('[J8] are handed over when Redis is back, though it was down when they were taken in', async () => {
    const manager = startManager();
    await redis.kill();
    const answer = await manager.submit(submission({ to: 'later' }));
    expect(answer).toMatchObject({ status: 'committed' });
    const jobId = 'jobId' in answer ? answer.jobId : '';
    await redis.start();
    await until(
      () => manager.find('shop', jobId).catch(() => null),
      (job) => job?.queue === 'bullmq:mail',
    );
    await manager.close(0);
  });
});
