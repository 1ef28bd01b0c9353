import { expect, it } from 'vitest';
import type { PgPool, PgPoolClient, PgResult, PgStatement } from './pg-driver.ts';
import { PostgresStore } from './postgres-store.ts';

const NOW = Date.UTC(2030, 0, 1);

/** A driver whose counts never end. */
function slowPool(): PgPool {
  const client = {
    query({ text }: PgStatement, done: (error: null, result: PgResult) => void) {
      if (text.includes('count(')) return;
      const isClock = text.includes('clock_timestamp');
      done(null, {
        rows: isClock ? [{ now: NOW }] : text.includes('barrier') ? [{ epoch: 1 }] : [],
      });
    },
    release() {},
    on() {},
    removeListener() {},
  };
  return { connect: async () => client as unknown as PgPoolClient };
}

it('[E12] the clock of PostgreSQL is read while a count takes long', async () => {
  const store = new PostgresStore({
    pool: slowPool(),
    timeoutMs: 1_000,
    transactionTimeoutMs: 1_000,
    connections: 1,
    notifications: false,
    proof: { durability: 'machine', findings: [] },
  });
  void store.count().catch(() => {});
  const id = { scope: 's', key: 'k' };
  expect(await Promise.all([store.read(id), store.clock()])).toEqual([null, NOW]);
  await store.close();
});
