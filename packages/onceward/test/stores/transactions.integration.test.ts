import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startPostgres } from '../../../../scripts/services/index.ts';
import { startChild } from './arrivals.ts';
import { type OrderDesk, openOrderDesk } from './order-desk.ts';
import type { StoreAddress } from './store-address.ts';

const folder = mkdtempSync(join(tmpdir(), 'onceward-orders-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Place {
  readonly address: StoreAddress;
  dispose(): Promise<void>;
}

const PLACES = {
  postgres: async (): Promise<Place> => {
    const server = await startPostgres();
    return {
      address: { kind: 'postgres', at: server.url, timeoutMs: 5_000 },
      dispose: server.dispose,
    };
  },
  sqlite: async (): Promise<Place> => ({
    address: { kind: 'sqlite', at: join(folder, 'orders.db'), timeoutMs: 5_000 },
    dispose: async () => {},
  }),
} as const;

describe.each(['postgres', 'sqlite'] as const)(
  'record and order in one transaction of %s',
  (kind) => {
    let place: Place;
    let desk: OrderDesk;

    beforeAll(async () => {
      place = await PLACES[kind]();
      desk = await openOrderDesk(place.address, () => {});
    });
    afterAll(async () => {
      await desk.close();
      await place.dispose();
    });

    /** How the process ended: what it did, or that it was killed. */
    async function runProcess(key: string, dieAt: number): Promise<{ points: number } | 'killed'> {
      const child = startChild('./order-process.ts', [
        JSON.stringify(place.address),
        key,
        String(dieAt),
      ]);
      const reported = once(child, 'message').catch(() => undefined);
      const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
      if (signal === 'SIGKILL') return 'killed';
      expect(code).toBe(0);
      return ((await reported) as [{ points: number }])[0];
    }

    it('[E7] a process killed at any statement leaves both or neither, and a retry makes it one', async () => {
      const whole = await runProcess('whole', -1);
      if (whole === 'killed') throw new Error('it should have lived');
      expect(whole.points).toBeGreaterThanOrEqual(10);
      const seen = { both: 0, neither: 0 };
      const dieAndRetry = async (dieAt: number) => {
        const key = `order ${dieAt}`;
        expect(await runProcess(key, dieAt)).toBe('killed');
        const placed = await desk.countOrders(key);
        const retried = await desk.placeOrder(key);
        // The order is there exactly if its record is: then the retry is a replay.
        expect(retried.kind).toBe(placed === 1 ? 'replayed' : 'executed');
        expect(await desk.countOrders(key)).toBe(1);
        seen[placed === 1 ? 'both' : 'neither'] += 1;
      };
      for (let dieAt = 0; dieAt < whole.points; dieAt += 2) {
        const pair = [dieAt, dieAt + 1].filter((at) => at < whole.points);
        // SQLite takes one transaction at a time on a connection.
        if (kind === 'sqlite') for (const at of pair) await dieAndRetry(at);
        else await Promise.all(pair.map(dieAndRetry));
      }
      expect(seen.both).toBeGreaterThan(0);
      expect(seen.neither).toBeGreaterThan(0);
    });

    it('[E7] two arrivals at once place one order', async () => {
      const results =
        kind === 'sqlite'
          ? [await desk.placeOrder('twice'), await desk.placeOrder('twice')]
          : await Promise.all([desk.placeOrder('twice'), desk.placeOrder('twice')]);
      expect(results.map((result) => result.kind).sort()).toEqual(['executed', 'replayed']);
      expect(await desk.countOrders('twice')).toBe(1);
    });
  },
);
