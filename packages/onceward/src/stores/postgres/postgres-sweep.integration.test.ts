import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../../scripts/services/index.ts';
import { Engine } from '../../engine/engine.ts';
import type { World } from '../../engine/world.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { nodeWorld } from '../../runtime/node-world.ts';
import { openPostgresStore, type PostgresStore } from './index.ts';

let server: PostgresServer;
let pool: pg.Pool;
let store: PostgresStore;

beforeAll(async () => {
  server = await startPostgres();
  pool = new pg.Pool({ connectionString: server.url });
  pool.on('error', () => {});
  store = await openPostgresStore({ pool, timeoutMs: 15_000 });
}, 60_000);
afterAll(async () => {
  await store.close();
  await pool.end();
  await server.dispose();
});

/** The real world, and an administrator who sets its wall clock. */
function steppedWorld(): World & { stepMs: number } {
  const real = nodeWorld();
  const world = { ...real, stepMs: 0, now: () => real.now() + world.stepMs };
  return world;
}

it.each([
  ['as it is', 0],
  ['set a day ahead', 86_400_000],
  ['set a day back', -86_400_000],
])(
  '[E11] the sweep forgets what has expired by the clock of PostgreSQL, with its own %s',
  async (_how, stepMs) => {
    const world = steppedWorld();
    const failures: unknown[] = [];
    const engine = new Engine({
      store,
      world,
      platform: nodePlatform(),
      sweep: false,
      observe: (event) => {
        if (event.type === 'store_error') failures.push(event.error);
      },
    });
    const policy = { keepCommittedMs: 1 };
    const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
    const keys = ['a', 'b', 'c'].map((name) => `${name} ${stepMs}`);
    for (const key of keys) {
      await engine.once({ scope: 'orders', key, effect, policy }, async () => key);
    }
    world.stepMs = stepMs;
    let forgotten = 0;
    await expect
      .poll(async () => (forgotten += (await engine.sweep()).forgotten), { timeout: 20_000 })
      .toBe(keys.length);
    for (const key of keys) expect(await engine.read({ scope: 'orders', key })).toBeNull();
    expect(failures).toEqual([]);
    await engine.close();
  },
  60_000,
);
