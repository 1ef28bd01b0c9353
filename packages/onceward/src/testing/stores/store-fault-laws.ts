import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { StoreError } from '../../engine/errors.ts';
import type { OperationId, Revision } from '../../engine/record.ts';
import type { RecordStore, StoredRecord, SwapResult } from '../../engine/record-store.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { FaultyStore } from './store-fault-suite.ts';
import { record } from './store-probe.ts';

/** How much later than its deadline a call may be seen to end on a busy machine. */
const SLACK_MS: DurationMs = 3_000;
/** After a fault has ended, a store must work again within this. */
const RECOVERY_MS: DurationMs = 20_000;

/** What a caller knows after one swap. */
export interface Tried {
  readonly id: OperationId;
  readonly text: string;
  readonly outcome: 'won' | 'lost' | 'not_applied' | 'unknown';
  readonly revision: Revision | null;
}

let names = 0;

export function newId(): OperationId {
  return { scope: 'faults', key: `operation ${names++}` };
}

export async function trySwap(
  store: RecordStore,
  id: OperationId,
  expected: Revision | null,
  text: string,
): Promise<Tried> {
  try {
    const result: SwapResult = await store.swap(id, expected, record(text));
    const outcome = result.won ? 'won' : 'lost';
    return { id, text, outcome, revision: result.won ? result.revision : null };
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    expect(error.code).toBe('ONCE_STORE_UNAVAILABLE');
    const outcome = error.applied === 'no' ? 'not_applied' : 'unknown';
    return { id, text, outcome, revision: null };
  }
}

/** Waits until the store answers again. */
export async function recover(store: RecordStore): Promise<void> {
  const giveUpAt = performance.now() + RECOVERY_MS;
  for (;;) {
    const tried = await trySwap(store, newId(), null, 'recovered');
    // A read may go another way than a write.
    const read = await store.read(tried.id).then(
      () => true,
      () => false,
    );
    if (tried.outcome === 'won' && read) return;
    if (performance.now() > giveUpAt) throw new Error('The store did not recover.');
    await sleep(50);
  }
}

/** Reads until it is answered: a busy machine may be late without any fault. */
export async function readPatiently(
  store: RecordStore,
  id: OperationId,
): Promise<StoredRecord | null> {
  const giveUpAt = performance.now() + RECOVERY_MS;
  for (;;) {
    try {
      return await store.read(id);
    } catch (error) {
      if (!(error instanceof StoreError) || performance.now() > giveUpAt) throw error;
      await sleep(50);
    }
  }
}

/** The answer to a claim must match what is stored. */
async function assertTrue(store: RecordStore, tried: Tried): Promise<void> {
  const stored = await readPatiently(store, tried.id);
  const text = stored && new TextDecoder().decode(stored.bytes);
  if (tried.outcome === 'won') {
    expect(text).toBe(tried.text);
    expect(stored?.revision).toBe(tried.revision);
  }
  if (tried.outcome === 'not_applied') expect(text).toBeNull();
  if (tried.outcome === 'unknown') expect([tried.text, null]).toContain(text);
  // The doubt is over: a claim now wins exactly if nothing is there.
  const again = await trySwap(store, tried.id, null, 'again');
  expect(again.outcome).not.toBe(stored === null ? 'lost' : 'won');
}

async function claimAll(store: RecordStore, count: number): Promise<Tried[]> {
  return Promise.all(
    Array.from({ length: count }, () => {
      const id = newId();
      return trySwap(store, id, null, `claim of ${id.key}`);
    }),
  );
}

/** Every call must have ended, one way or the other, soon after its deadline. */
async function claimAllInTime(faulty: FaultyStore, timeoutMs: DurationMs): Promise<Tried[]> {
  const began = performance.now();
  const tried = await claimAll(faulty.store, 12);
  expect(performance.now() - began).toBeLessThan(timeoutMs + SLACK_MS);
  return tried;
}

async function assertAllTrue(store: RecordStore, all: readonly Tried[]): Promise<void> {
  await recover(store);
  // What is still in flight gets a moment to arrive late, as it would.
  await sleep(100);
  for (const tried of all) await assertTrue(store, tried);
}

export async function frozenServer(faulty: FaultyStore, timeoutMs: DurationMs): Promise<void> {
  const { store, server } = faulty;
  await recover(store);
  server.pause();
  const first = await claimAllInTime(faulty, timeoutMs);
  const second = await claimAllInTime(faulty, timeoutMs);
  server.resume();
  const all = [...first, ...second];
  expect(all.filter((tried) => tried.outcome === 'won' || tried.outcome === 'lost')).toEqual([]);
  await assertAllTrue(store, all);
}

export async function cutReply(faulty: FaultyStore, timeoutMs: DurationMs): Promise<void> {
  const { store, proxy } = faulty;
  const all: Tried[] = [];
  for (const afterBytes of [0, 1, 2, 7, 30, 90]) {
    await recover(store);
    all.push(await trySwap(store, newId(), null, 'before the cut'));
    proxy.set({ toClient: { kind: 'cut', afterBytes } });
    all.push(...(await claimAllInTime(faulty, timeoutMs)));
    proxy.set({});
  }
  expect(all.some((tried) => tried.outcome !== 'won')).toBe(true);
  await assertAllTrue(store, all);
}

export async function resetConnections(faulty: FaultyStore): Promise<void> {
  const { store, proxy } = faulty;
  const all: Tried[] = [];
  for (let round = 0; round < 5; round += 1) {
    await recover(store);
    const claims = claimAll(store, 12);
    if (round % 2 === 1) await sleep(1);
    proxy.reset();
    all.push(...(await claims));
  }
  await assertAllTrue(store, all);
}

export async function halfOpenConnection(faulty: FaultyStore, timeoutMs: DurationMs) {
  const { store, proxy } = faulty;
  await recover(store);
  proxy.halfOpen();
  const all = await claimAllInTime(faulty, timeoutMs);
  await assertAllTrue(store, all);
}

export async function blackhole(faulty: FaultyStore, timeoutMs: DurationMs): Promise<void> {
  const { store, proxy } = faulty;
  for (const direction of ['toServer', 'toClient'] as const) {
    await recover(store);
    proxy.set({ [direction]: { kind: 'blackhole' } });
    const all = await claimAllInTime(faulty, timeoutMs);
    expect(all.filter((tried) => tried.outcome === 'won')).toEqual([]);
    proxy.set({});
    await assertAllTrue(store, all);
  }
}

export async function drippingServer(faulty: FaultyStore, timeoutMs: DurationMs): Promise<void> {
  const { store, proxy } = faulty;
  await recover(store);
  const all: Tried[] = [];
  for (const everyMs of [1, 40]) {
    proxy.set({ toClient: { kind: 'drip', bytes: 5, everyMs } });
    all.push(...(await claimAllInTime(faulty, timeoutMs)));
    proxy.set({});
    await recover(store);
  }
  await assertAllTrue(store, all);
}

export async function killedServer(faulty: FaultyStore, timeoutMs: DurationMs): Promise<void> {
  const { store, server } = faulty;
  await recover(store);
  const kept = await claimAll(store, 12);
  const underWay = claimAll(store, 12);
  await server.kill();
  const whileDown = await claimAllInTime(faulty, timeoutMs);
  expect(whileDown.filter((tried) => tried.outcome === 'won')).toEqual([]);
  await server.start();
  // Without durability nothing that was acknowledged is promised, but nothing refused may appear either.
  const promised = store.traits.durability === 'none' ? [] : [...kept, ...(await underWay)];
  await assertAllTrue(store, [...promised, ...whileDown]);
  await underWay;
}
