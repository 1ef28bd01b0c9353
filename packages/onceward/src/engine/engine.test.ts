import { describe, expect, it, vi } from 'vitest';
import { nodePlatform } from '../runtime/node-platform.ts';
import { memoryStore } from '../stores/memory/index.ts';
import { type ManualWorld, manualWorld } from '../testing/manual-world.ts';
import { sharedStore, troubledStore } from '../testing/stores/troubled-store.ts';
import { committed, id, LEASE, operation, repeatable, setUp } from './engine.fixture.ts';
import { Engine } from './engine.ts';
import type { Operation } from './operation.ts';
import { profiles } from './profiles.ts';
import type { RecordStore } from './record-store.ts';

it('[E2] an observer that throws at every event changes no answer and leaves no call hanging', async () => {
  const store = troubledStore(sharedStore(memoryStore()));
  const world = manualWorld();
  const observe = () => {
    throw new Error('a mistake of the observer');
  };
  const engine = new Engine({ store, world, platform: nodePlatform(), sweep: false, observe });
  const effect = async () => committed('done');
  expect(await engine.execute(operation, effect)).toMatchObject({ kind: 'executed' });
  expect(await engine.execute(operation, effect)).toMatchObject({ kind: 'replayed' });
  store.trouble = 'down';
  const other = { ...operation, id: { ...id, key: 'other' } };
  expect(await engine.execute(other, effect)).toMatchObject({ reason: 'store_unavailable' });
});

describe('sweeping', () => {
  it('[E11] forgets what has expired, a batch at a time, and says what is left', async () => {
    const { engine, world } = setUp();
    for (let i = 0; i < 25; i += 1) {
      const one = { ...operation, id: { scope: 's', key: `k${i}` } };
      await engine.execute(one, async () => committed(''));
    }
    await world.advance(profiles.http.keepCommittedMs);
    expect(await engine.sweep(10)).toMatchObject({ forgotten: 10, stale: 15 });
    expect(await engine.sweep(10)).toMatchObject({ forgotten: 10, stale: 5 });
    expect(await engine.sweep(10)).toMatchObject({ forgotten: 5, stale: 0 });
    expect(await engine.count()).toMatchObject({ committed: 0 });
  });

  it('[E11] sweeps share by share where the store knows no other way, and says what is left', async () => {
    const inner = memoryStore();
    const store: RecordStore = {
      traits: inner.traits,
      read: (one) => inner.read(one),
      swap: (one, expected, next) => inner.swap(one, expected, next),
      scan: (query) => inner.scan(query),
      count: () => inner.count(),
      close: () => inner.close(),
      scanDue: (dueBefore) => inner.scan({ dueBefore, limit: 10 }),
    };
    const { engine, world } = setUp(store);
    for (let i = 0; i < 25; i += 1) {
      const one = { ...operation, id: { scope: 's', key: `k${i}` } };
      await engine.execute(one, async () => committed(''));
    }
    expect(await engine.sweep(10)).toMatchObject({ forgotten: 0, stale: 0 });
    await world.advance(profiles.http.keepCommittedMs);
    // A share that is as dense as this one says that there is more, though it is no full batch.
    expect(await engine.sweep(50)).toMatchObject({ forgotten: 10, stale: 15 });
    expect(await engine.sweep(50)).toMatchObject({ forgotten: 10, stale: 5 });
    expect(await engine.sweep(50)).toMatchObject({ forgotten: 5, stale: 0 });
    expect(await engine.count()).toMatchObject({ committed: 0 });
  });

  it('[E11] an expired record that is not yet swept behaves as absent', async () => {
    const { engine, world } = setUp();
    await engine.execute(operation, async () => committed('one'));
    await world.advance(profiles.http.keepCommittedMs);
    const effect = vi.fn(async () => committed('two'));
    expect(await engine.execute(operation, effect)).toMatchObject({ kind: 'executed', attempt: 1 });
  });
});

describe('bad input', () => {
  const never = vi.fn(async () => committed(''));
  const cases: readonly [string, unknown, RegExp][] = [
    ['an empty key', { id: { scope: 's', key: '' } }, /key is empty/],
    ['a key that is too long', { id: { scope: 's', key: 'k'.repeat(513) } }, /key has 513.*512/],
    ['a scope that is missing', { id: { key: 'k' } }, /scope must be a string/],
    ['a scope with a NUL', { id: { scope: 'a\0b', key: 'k' } }, /scope contains U\+0000/],
    ['half a surrogate pair', { id: { scope: 's', key: '\ud800' } }, /key is not well-formed/],
    [
      'a fingerprint that is too long',
      { fingerprint: 'f'.repeat(129) },
      /fingerprint has 129.*128/,
    ],
    ['no effect kind', { effect: undefined }, /effect\.kind.*transaction, downstream, external/],
    ['an external effect without a choice', { effect: { kind: 'external' } }, /effect\.onLapse/],
    ['a negative lease', { policy: { ...profiles.http, leaseMs: -1 } }, /leaseMs is -1.*from 10/],
    ['a lease of NaN', { policy: { ...profiles.http, leaseMs: Number.NaN } }, /leaseMs is NaN/],
    ['an endless wait', { policy: { ...profiles.http, waitMs: Infinity } }, /waitMs is Infinity/],
    [
      'a limit of bytes below 0',
      { policy: { ...profiles.http, maxOutcomeBytes: -5 } },
      /maxOutcomeBytes/,
    ],
  ];
  for (const [what, change, message] of cases) {
    it(`[E7][E9] refuses ${what} by name, before anything is written`, async () => {
      const { engine, store } = setUp();
      const bad = { ...operation, ...(change as Partial<Operation>) };
      await expect(engine.execute(bad, never)).rejects.toThrow(message);
      expect(never).not.toHaveBeenCalled();
      expect(await store.count()).toMatchObject({ pending: 0, committed: 0 });
    });
  }

  it('[E7] refuses a transaction on a store that cannot share one', async () => {
    const { engine } = setUp();
    const shared: Operation = { ...operation, effect: { kind: 'transaction' } };
    await expect(engine.execute(shared, never)).rejects.toThrow(/executeWithin/);
    const within = engine.executeWithin(shared, async (work) => work({}), never);
    await expect(within).rejects.toThrow(/memory store cannot share a transaction/);
  });
});

describe('once', () => {
  const options = { scope: 's', key: 'k', effect: { kind: 'downstream' } } as const;

  it('[E15] returns the value of the run, and of every later call', async () => {
    const { engine } = setUp();
    const effect = vi.fn(async () => ({ order: 7 }));
    expect(await engine.once(options, effect)).toEqual({ order: 7 });
    expect(await engine.once(options, effect)).toEqual({ order: 7 });
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[E15] returns undefined for an effect without a value', async () => {
    const { engine } = setUp();
    expect(await engine.once(options, async () => {})).toBeUndefined();
    expect(await engine.once(options, async () => {})).toBeUndefined();
  });

  it('[E3][E15] throws a coded error for another input', async () => {
    const { engine } = setUp();
    await engine.once({ ...options, input: { amount: 1 } }, async () => 1);
    const other = engine.once({ ...options, input: { amount: 2 } }, async () => 2);
    await expect(other).rejects.toMatchObject({ code: 'ONCE_MISMATCH', retry: 'new_key' });
  });

  it('[E7] gives every attempt of an operation the same downstream key, and others another', async () => {
    const { engine } = setUp();
    const keys: string[] = [];
    const failing = engine.once(options, async (attempt) => {
      keys.push(attempt.downstreamKey);
      throw new Error('timeout');
    });
    await expect(failing).rejects.toThrow('timeout');
    for (const key of ['k', 'other']) {
      await engine.once({ ...options, key }, async (attempt) => keys.push(attempt.downstreamKey));
    }
    expect(keys[0]).toBe(keys[1]);
    expect(keys[2]).not.toBe(keys[0]);
    expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe('reservations', () => {
  it('[E5] commit under the fence, and answer a repeated commit as done', async () => {
    const { engine } = setUp();
    const claimed = await engine.reserve(operation);
    if (claimed.decision !== 'claimed') throw new Error('not claimed');
    const outcome = { contentType: 'text', bytes: Buffer.from('done') };
    const commit = () =>
      engine.writeFenced(id, claimed.fence, profiles.http, { as: 'committed', outcome });
    expect(await commit()).toEqual({ done: true });
    expect(await commit()).toEqual({ done: true });
    expect(await engine.reserve(operation)).toMatchObject({ decision: 'replay' });
  });

  it('[E5] a reservation whose claim could have lapsed on its way is renewed before it is given', async () => {
    const world = manualWorld();
    const { engine } = setUp(slowAtFirst(world, 1), world);
    const claimed = await engine.reserve(shortLease);
    if (claimed.decision !== 'claimed') throw new Error(claimed.decision);
    expect(claimed.leaseUntil).toBe(world.now() + 100);
    const { id, policy } = shortLease;
    expect(await engine.writeFenced(id, claimed.fence, policy, done)).toMatchObject({ done: true });
  });

  it('[E5] where the renewal comes too late as well, the claim is given back and nobody has it', async () => {
    const world = manualWorld();
    const { engine } = setUp(slowAtFirst(world, 2), world);
    await expect(engine.reserve(shortLease)).rejects.toMatchObject({
      code: 'ONCE_STORE_UNAVAILABLE',
    });
    expect(await engine.reserve(shortLease)).toMatchObject({ decision: 'claimed' });
  });

  it('[E5] the fence stays the same through renewals and is lost at a takeover', async () => {
    const { engine, world } = setUp(sharedStore(memoryStore()));
    const first = await engine.reserve(repeatable);
    if (first.decision !== 'claimed') throw new Error('not claimed');
    const renew = () => engine.writeFenced(id, first.fence, profiles.http, { as: 'renewed' });
    await world.advance(LEASE - 1);
    expect(await renew()).toMatchObject({ done: true });
    expect(await renew()).toMatchObject({ done: true });
    await world.advance(LEASE);
    const second = await engine.reserve(repeatable);
    expect(second).toMatchObject({ decision: 'claimed', attempt: 2 });
    expect(await renew()).toEqual({ done: false });
    expect(await engine.writeFenced(id, first.fence, profiles.http, { as: 'released' })).toEqual({
      done: false,
    });
  });

  it('[E6] a commit after the lease lapsed resolves the doubt', async () => {
    const { engine, world, audit } = setUp(sharedStore(memoryStore()));
    const first = await engine.reserve(operation);
    if (first.decision !== 'claimed') throw new Error('not claimed');
    await world.advance(LEASE);
    expect(await engine.reserve(operation)).toEqual({ decision: 'in_doubt' });
    const outcome = { contentType: 'text', bytes: Buffer.from('done') };
    const commit = { as: 'committed', outcome } as const;
    expect(await engine.writeFenced(id, first.fence, profiles.http, commit)).toEqual({
      done: true,
    });
    expect(await engine.reserve(operation)).toMatchObject({ decision: 'replay' });
    expect(audit).toHaveLength(1);
  });
});

const shortLease = { ...operation, policy: { ...operation.policy, leaseMs: 100 } };
const done = { as: 'committed', outcome: { contentType: 't', bytes: Buffer.from('x') } } as const;

/** Its first swaps are made at once, but told when a lease of 100 ms has lapsed. */
function slowAtFirst(world: ManualWorld, slowSwaps: number): RecordStore {
  const inner = memoryStore();
  let swaps = 0;
  return {
    traits: inner.traits,
    read: (id) => inner.read(id),
    scan: (query) => inner.scan(query),
    count: () => inner.count(),
    close: () => inner.close(),
    swap: async (id, expected, next) => {
      const result = await inner.swap(id, expected, next);
      swaps += 1;
      if (swaps <= slowSwaps) await world.advance(150);
      return result;
    },
  };
}
