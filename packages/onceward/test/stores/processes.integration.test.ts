import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startEtcd, startPostgres, startRedis } from '../../../../scripts/services/index.ts';
import { openWithDriver } from '../../src/stores/sqlite/sqlite.fixture.ts';
import type { ArrivalOrder } from './arrival-process.ts';
import { type Arrivals, runsIn, startArrivals, untilRuns } from './arrivals.ts';
import type { StoreAddress } from './store-address.ts';

const TIMEOUT_MS = 2_000;

/** A real store that several processes can reach, and that can be made to hang. */
interface SharedStore {
  readonly address: StoreAddress;
  freeze(): void;
  thaw(): void;
  dispose(): Promise<void>;
}

const folder = mkdtempSync(join(tmpdir(), 'onceward-arrivals-'));
afterAll(() => rmSync(folder, { recursive: true }));

const STORES: Readonly<Record<StoreAddress['kind'], () => Promise<SharedStore>>> = {
  redis: async () => {
    const server = await startRedis({ appendfsync: 'always' });
    return {
      address: { kind: 'redis', at: server.url, timeoutMs: TIMEOUT_MS },
      freeze: server.pause,
      thaw: server.resume,
      dispose: server.dispose,
    };
  },
  postgres: async () => {
    const server = await startPostgres();
    return {
      address: { kind: 'postgres', at: server.url, timeoutMs: TIMEOUT_MS },
      freeze: server.pause,
      thaw: server.resume,
      dispose: server.dispose,
    };
  },
  sqlite: async () => {
    const at = join(folder, 'shared.db');
    const holder = openWithDriver(at);
    return {
      address: { kind: 'sqlite', at, timeoutMs: TIMEOUT_MS },
      // A writer that never ends its transaction is what a file has for a frozen server.
      freeze: () => void holder.exec('begin immediate'),
      thaw: () => void holder.exec('rollback'),
      dispose: async () => void holder.close(),
    };
  },
  etcd: async () => {
    const cluster = await startEtcd(1);
    const [node] = cluster.nodes;
    if (node === undefined) throw new Error('etcd has no node');
    return {
      address: { kind: 'etcd', at: node.url, timeoutMs: TIMEOUT_MS },
      freeze: node.pause,
      thaw: node.resume,
      dispose: cluster.dispose,
    };
  },
};

describe.each(Object.keys(STORES) as StoreAddress['kind'][])('several processes on %s', (kind) => {
  let shared: SharedStore;
  const started: Arrivals[] = [];
  let operations = 0;

  beforeAll(async () => {
    shared = await STORES[kind]();
  });
  afterAll(() => shared.dispose());
  afterEach(async () => {
    for (const process of started.splice(0)) await process.kill();
  });

  async function start(): Promise<Arrivals> {
    const process = await startArrivals(shared.address);
    started.push(process);
    return process;
  }

  function newOrder(change: Partial<ArrivalOrder> = {}): ArrivalOrder {
    const name = `${kind}-${operations++}`;
    return {
      key: name,
      count: 1,
      onLapse: 'in_doubt',
      leaseMs: 30_000,
      waitMs: 30_000,
      effectFile: join(folder, name),
      holdMs: 0,
      ...change,
    };
  }

  it('[E1] of 50 arrivals over two processes one runs, and all get its answer', async () => {
    const [a, b] = await Promise.all([start(), start()]);
    const order = newOrder({ count: 25, holdMs: 200 });
    const reports = await Promise.all([a.send(order), b.send(order)]);
    expect(reports.flatMap((report) => report.codes)).toEqual([]);
    const values = reports.flatMap((report) => report.values);
    expect(values).toHaveLength(50);
    expect(new Set(values).size).toBe(1);
    expect(runsIn(order.effectFile)).toHaveLength(1);
  });

  it('[E6] after kill -9 in mid-effect the operation is in doubt where that was chosen', async () => {
    const [a, b] = await Promise.all([start(), start()]);
    const order = newOrder({ leaseMs: 1_500, holdMs: 600_000 });
    void a.send(order).catch(() => {});
    await untilRuns(order.effectFile, 1);
    await a.kill();
    const report = await b.send({ ...order, holdMs: 0 });
    expect(report.codes).toEqual(['ONCE_IN_DOUBT']);
    expect(runsIn(order.effectFile)).toHaveLength(1);
  });

  it('[E6] after kill -9 in mid-effect another attempt takes over where that was chosen', async () => {
    const [a, b] = await Promise.all([start(), start()]);
    const order = newOrder({ leaseMs: 1_500, holdMs: 600_000, onLapse: 'take_over' });
    void a.send(order).catch(() => {});
    await untilRuns(order.effectFile, 1);
    await a.kill();
    const report = await b.send({ ...order, holdMs: 0 });
    expect(report.values).toEqual([`attempt 2 of process ${b.pid}`]);
    const [first, second] = runsIn(order.effectFile);
    expect(second?.fence).toBeGreaterThan(first?.fence ?? 0);
  });

  it('[E5] a process that was frozen past its lease loses to the one that took over', async () => {
    const [a, b] = await Promise.all([start(), start()]);
    const order = newOrder({ leaseMs: 1_500, holdMs: 1_000, onLapse: 'take_over' });
    const late = a.send(order);
    await untilRuns(order.effectFile, 1);
    a.pause();
    const report = await b.send({ ...order, holdMs: 0 });
    a.resume();
    expect(report.values).toEqual([`attempt 2 of process ${b.pid}`]);
    // The late one gets the only answer there is.
    expect((await late).values).toEqual(report.values);
    expect((await b.send(order)).values).toEqual(report.values);
    expect(runsIn(order.effectFile)).toHaveLength(2);
  });

  it('[E12] what a frozen store could not confirm is refused in time and never runs on thaw', async () => {
    const a = await start();
    expect((await a.send(newOrder())).codes).toEqual([]);
    const order = newOrder({ count: 8 });
    shared.freeze();
    const began = performance.now();
    const report = await a.send({ ...order, waitMs: 0 });
    const took = performance.now() - began;
    shared.thaw();
    // One of the eight asks the store; the others do not wait for it.
    expect(report.values).toEqual([]);
    expect(report.codes).toContain('ONCE_STORE_UNAVAILABLE');
    expect(took).toBeLessThan(2 * TIMEOUT_MS + 4_000);
    await sleep(1_500);
    expect(runsIn(order.effectFile)).toEqual([]);
    // The claim that may have arrived late is taken back, so the next arrival runs, once.
    await expect
      .poll(async () => (await a.send(order)).values.length, { timeout: 40_000, interval: 200 })
      .toBe(8);
    expect(runsIn(order.effectFile)).toHaveLength(1);
  });
});
