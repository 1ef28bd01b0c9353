import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type PostgresCluster,
  startPostgresCluster,
} from '../../../../../scripts/services/index.ts';
import type { OperationId } from '../../engine/record.ts';
import { openPostgresStore, type PgPool, type PostgresStore } from './index.ts';

const SLACK_MS = 4_000;

let cluster: PostgresCluster;
let admin: pg.Client;
let pool: pg.Pool;
let store: PostgresStore;
let operations = 0;

beforeAll(async () => {
  cluster = await startPostgresCluster();
});
afterAll(() => cluster.dispose());

beforeEach(async () => {
  admin = await connectAdmin();
});
afterEach(async () => {
  await store.close();
  await pool.end();
  await admin.end();
});

async function connectAdmin(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: cluster.primary.url });
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function openStore(timeoutMs: number): Promise<PostgresStore> {
  pool = new pg.Pool({ connectionString: cluster.primary.url });
  pool.on('error', () => {});
  store = await openPostgresStore({ pool, timeoutMs, durability: 'replicated' });
  // Connections are opened by the first calls; their barriers are not what is tested.
  const first = newId();
  await untilAnswered(() => claim(first));
  await untilAnswered(() => store.read(first));
  return store;
}

const newId = (): OperationId => ({ scope: 'hazards', key: `operation ${operations++}` });

function claim(id: OperationId, text = 'claimed') {
  const bytes = new TextEncoder().encode(text);
  return store.swap(id, null, { bytes, state: 'pending', dueAt: null });
}

function pauseStandbys(): void {
  for (const standby of cluster.standbys) standby.pause();
}

function resumeStandbys(): void {
  for (const standby of cluster.standbys) standby.resume();
}

/** Cancels, as an operator might, the backend that waits for a standby. */
async function cancelWaits(): Promise<void> {
  for (let tries = 0; tries < 400; tries += 1) {
    const { rows } = await admin.query(
      `select pg_cancel_backend(pid) from pg_stat_activity
       where wait_event = 'SyncRep' and pid <> pg_backend_pid()`,
    );
    if (rows.length > 0) return;
    await sleep(10);
  }
  throw new Error('nobody waited for a standby');
}

async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + 20_000;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > giveUpAt) throw error;
      await sleep(50);
    }
  }
}

describe('a primary with two synchronous standbys', () => {
  it('proves that it is replicated, and survives the loss of one standby', async () => {
    await openStore(2_000);
    expect(store.traits.durability).toBe('replicated');
    cluster.standbys[0].pause();
    const result = await claim(newId());
    cluster.standbys[0].resume();
    expect(result.won).toBe(true);
  });

  it('[E12] a cancelled wait for the standbys is unknown, though PostgreSQL calls it done', async () => {
    await openStore(20_000);
    const id = newId();
    pauseStandbys();
    try {
      const claiming = claim(id).catch((error: unknown) => error);
      await cancelWaits();
      expect(await claiming).toMatchObject({
        code: 'ONCE_STORE_UNAVAILABLE',
        applied: 'unknown',
        message: expect.stringContaining('warning'),
      });
    } finally {
      resumeStandbys();
    }
    const stored = await untilAnswered(() => store.read(id));
    expect(new TextDecoder().decode(stored?.bytes)).toBe('claimed');
  });

  it('[E12] a commit that waits for standbys is refused in time, whatever statement_timeout says', async () => {
    await openStore(600);
    const id = newId();
    pauseStandbys();
    try {
      const began = performance.now();
      await expect(claim(id)).rejects.toMatchObject({ applied: 'unknown' });
      expect(performance.now() - began).toBeLessThan(600 + SLACK_MS);
      // It is committed here, waits for a standby, and is invisible until then.
      expect(await store.read(id)).toBeNull();
    } finally {
      resumeStandbys();
    }
    expect((await untilAnswered(() => claim(newId()))).won).toBe(true);
    const stored = await untilAnswered(() => store.read(id));
    expect(new TextDecoder().decode(stored?.bytes)).toBe('claimed');
  });

  it('[E12] after a restart nothing is read until a standby has what the primary shows', async () => {
    await openStore(600);
    const id = newId();
    pauseStandbys();
    try {
      await expect(claim(id)).rejects.toMatchObject({ applied: 'unknown' });
      await cluster.primary.kill();
      await cluster.primary.start();
      const alone = await connectAdmin();
      const { rows } = await alone.query('select 1 from onceward.records where key = $1', [id.key]);
      await alone.end();
      expect(rows).toHaveLength(1);
      for (let tries = 0; tries < 3; tries += 1) {
        await expect(store.read(id)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
      }
    } finally {
      resumeStandbys();
    }
    const stored = await untilAnswered(() => store.read(id));
    expect(new TextDecoder().decode(stored?.bytes)).toBe('claimed');
  });

  it('[E12] a standby is refused at the start, and later when the pool begins to lead to one', async () => {
    await openStore(1_000);
    const standbyPool = new pg.Pool({ connectionString: cluster.standbys[0].url });
    standbyPool.on('error', () => {});
    const refusal = openPostgresStore({ pool: standbyPool });
    await expect(refusal).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG' });

    let current = pool;
    const switching: PgPool = { connect: () => current.connect() };
    const moved = await openPostgresStore({ pool: switching, notifications: false });
    const id = newId();
    await moved.swap(id, null, { bytes: Buffer.from('x'), state: 'pending', dueAt: null });
    expect(await moved.read(id)).not.toBeNull();
    current = standbyPool;
    await admin.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname is not null',
    );
    await sleep(200);
    for (let tries = 0; tries < 3; tries += 1) {
      await expect(moved.read(id)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    }
    await moved.close();
    await standbyPool.end();
  });

  it('[E7] while a commit is in doubt nothing is read that could be older', async () => {
    await openStore(600);
    const id = newId();
    pauseStandbys();
    try {
      const next = { bytes: Buffer.from('joined'), state: 'committed', dueAt: null } as const;
      const running = store.transact((client) => store.within(client).swap(id, null, next));
      await expect(running).rejects.toMatchObject({ applied: 'unknown' });
      await expect(store.read(id)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    } finally {
      resumeStandbys();
    }
    expect(await untilAnswered(() => store.read(id))).not.toBeNull();
  });

  it('[E7] a transaction whose commit was cancelled while it waited is not reported as done', async () => {
    await openStore(20_000);
    const id = newId();
    pauseStandbys();
    try {
      const running = store
        .transact(async (client) => {
          const next = { bytes: Buffer.from('joined'), state: 'committed', dueAt: null } as const;
          await store.within(client).swap(id, null, next);
        })
        .catch((error: unknown) => error);
      await cancelWaits();
      expect(await running).toMatchObject({ applied: 'unknown' });
    } finally {
      resumeStandbys();
    }
    expect(await untilAnswered(() => store.read(id))).not.toBeNull();
  });
});
