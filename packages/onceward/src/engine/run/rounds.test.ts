import { describe, expect, it, vi } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { manualWorld } from '../../testing/manual-world.ts';
import { sharedStore, troubledStore } from '../../testing/stores/troubled-store.ts';
import { committed, heldEffect, LEASE, operation, repeatable, setUp } from '../engine.fixture.ts';
import { StoreError } from '../errors.ts';
import { profiles } from '../profiles.ts';
import type { RecordStore } from '../record-store.ts';
import { NothingDone } from './attempt.ts';

/** A store whose swaps go as `swap` says; everything else is the memory store's. */
function storeThat(swap: RecordStore['swap']): RecordStore {
  const { traits, read, scan, count, close } = sharedStore(memoryStore());
  return { traits, read, scan, count, close, swap };
}

/** Lets time pass until the promise has settled. */
async function whileTimePasses<T>(
  world: ReturnType<typeof manualWorld>,
  promise: Promise<T>,
): Promise<T> {
  let settled = false;
  const ended = promise.finally(() => {
    settled = true;
  });
  ended.catch(() => {});
  for (let turn = 0; !settled && turn < 2_000; turn += 1) await world.advance(10);
  return ended;
}

describe('a store that answers nonsense', () => {
  it('[E12] is asked a bounded number of times, then the arrival is refused with a code', async () => {
    const swap = vi.fn(async () => ({ won: false as const, current: null }));
    const { engine, world } = setUp(storeThat(swap));
    const effect = vi.fn(async () => committed('ok'));
    const refused = await whileTimePasses(world, engine.execute(operation, effect));
    expect(refused).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    expect(swap.mock.calls.length).toBeLessThan(20);
    expect(effect).not.toHaveBeenCalled();
  });

  it('[E12] is met in the same way by a reservation', async () => {
    const swap = vi.fn(async () => ({ won: false as const, current: null }));
    const { engine, world } = setUp(storeThat(swap));
    const reserving = whileTimePasses(world, engine.reserve(operation));
    await expect(reserving).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    expect(swap.mock.calls.length).toBeLessThan(20);
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 42],
    ['an empty object', {}],
    ['a win without a revision', { won: true }],
    ['a win with a revision that is none', { won: true, revision: '7' }],
    ['a loss that does not say what is there', { won: false }],
    ['a loss against what is no record', { won: false, current: { revision: 3 } }],
  ])('[E12] that answers a swap with %s runs nothing, and has a code', async (_what, answer) => {
    const { engine, world } = setUp(storeThat(async () => answer as never));
    const effect = vi.fn(async () => committed('ok'));
    const told = await whileTimePasses(
      world,
      engine.execute(operation, effect).catch((error: unknown) => ({ cause: error })),
    );
    expect(told).toMatchObject({ cause: { code: 'ONCE_STORE_UNAVAILABLE' } });
    expect(effect).not.toHaveBeenCalled();
    const reserving = whileTimePasses(world, engine.reserve(operation));
    await expect(reserving).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
  });

  it.each([
    ['nothing', undefined],
    ['text', 'record'],
    ['a record without bytes', { revision: 1 }],
  ])('[E12] that answers a read with %s has a code', async (_what, answer) => {
    const store = {
      ...storeThat(() => Promise.reject(new Error('gone'))),
      read: async () => answer,
    };
    const { engine, world } = setUp(store as never);
    const refused = await whileTimePasses(
      world,
      engine.execute(operation, async () => committed('ok')),
    );
    expect(refused).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    await expect(engine.read(operation.id)).rejects.toMatchObject({
      code: 'ONCE_STORE_UNAVAILABLE',
    });
  });

  it('[E12] that throws, or returns no promise, is told as a coded error', async () => {
    const broken = [
      () => {
        throw new Error('broken');
      },
      () => undefined,
    ];
    for (const swap of broken) {
      const { engine, world } = setUp(storeThat(swap as never));
      const refused = await whileTimePasses(
        world,
        engine.execute(operation, async () => committed('ok')),
      );
      expect(refused).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    }
  });

  it('[E12] after the effect has run leaves its caller the answer, marked unrecorded', async () => {
    let swaps = 0;
    const inner = sharedStore(memoryStore());
    const swap: RecordStore['swap'] = (...args) => {
      swaps += 1;
      return swaps === 1 ? inner.swap(...args) : Promise.resolve({} as never);
    };
    const { engine, world } = setUp({ ...inner, swap });
    const told = await whileTimePasses(
      world,
      engine.execute(operation, async () => committed('ok')),
    );
    expect(told).toMatchObject({ kind: 'executed', recorded: false });
  });

  it.each([
    ['a string', 'no'],
    ['nothing', undefined],
    ['an error without a code', new Error('socket hang up')],
  ])('[E12] that rejects with %s is told as a coded error', async (_what, reason) => {
    const { engine, world } = setUp(storeThat(() => Promise.reject(reason)));
    const refused = await whileTimePasses(
      world,
      engine.execute(operation, async () => committed('ok')),
    );
    expect(refused).toMatchObject({
      kind: 'refused',
      reason: 'store_unavailable',
      cause: { code: 'ONCE_STORE_UNAVAILABLE' },
    });
  });

  it('[E11] [E12] an expired record in a store that has stopped writing meets two tries, not a loop', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const first = setUp(store, world).engine;
    await first.execute(operation, async () => committed('once'));
    await world.advance(profiles.http.keepCommittedMs + 1);
    const swap = vi.fn(() =>
      Promise.reject(new StoreError('ONCE_STORE_FAILED', 'it has stopped writing')),
    );
    const { traits, scan, count, close } = store;
    const read: RecordStore['read'] = (of) => store.read(of);
    const { engine } = setUp({ traits, read, scan, count, close, swap }, world);
    const refused = await whileTimePasses(
      world,
      engine.execute(operation, async () => committed('again')),
    );
    expect(refused).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    expect(swap.mock.calls.length).toBeLessThanOrEqual(2);
  });
});

describe('a caller that leaves', () => {
  it('[E4] is let go while it waits behind a run of its own process', async () => {
    const { engine } = setUp();
    const held = heldEffect();
    const running = engine.execute(operation, held.effect);
    const leaving = new AbortController();
    const { signal } = leaving;
    const waiting = engine.execute({ ...operation, signal }, held.effect);
    await vi.waitFor(() => expect(held.attempts).toHaveLength(1));
    leaving.abort();
    expect(await waiting).toMatchObject({ kind: 'refused', reason: 'in_progress' });
    held.end(0, committed('done'));
    expect(await running).toMatchObject({ kind: 'executed' });
  });

  it('[E4] is let go while it waits for another process', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const [one, two] = [setUp(store, world).engine, setUp(store, world).engine];
    const held = heldEffect();
    const running = one.execute(operation, held.effect);
    await vi.waitFor(() => expect(held.attempts).toHaveLength(1));
    const leaving = new AbortController();
    const waiting = two.execute({ ...operation, signal: leaving.signal }, held.effect);
    await new Promise(setImmediate);
    leaving.abort();
    expect(await waiting).toMatchObject({ kind: 'refused', reason: 'in_progress' });
    held.end(0, committed('done'));
    await running;
  });
});

describe('arrivals that may not wait', () => {
  it('[E2] [E4] get a settled answer together, though one of them is still looking it up', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const sync = { ...operation, policy: profiles.sync };
    await setUp(store, world).engine.execute(sync, async () => committed('once'));
    const { engine } = setUp(store, world);
    const again = Array.from({ length: 10 }, () =>
      engine.execute(sync, async () => committed('twice')),
    );
    const kinds = (await Promise.all(again)).map(({ kind }) => kind);
    expect(kinds).toEqual(Array(10).fill('replayed'));
  });

  it('[E4] are refused as soon as the effect is known to run', async () => {
    const { engine } = setUp();
    const sync = { ...operation, policy: profiles.sync };
    const held = heldEffect();
    const running = engine.execute(sync, held.effect);
    expect(await engine.execute(sync, held.effect)).toMatchObject({ reason: 'in_progress' });
    held.end(0, committed('done'));
    await running;
  });
});

describe('a key that was claimed', () => {
  it('[E3] stays bound to its request when the attempt that took it over throws', async () => {
    const store = memoryStore();
    const world = manualWorld();
    const frozen = troubledStore(sharedStore(store));
    const held = heldEffect();
    setUp(frozen, world)
      .engine.execute(repeatable, held.effect)
      .catch(() => {});
    await world.advance(0);
    frozen.trouble = 'frozen';
    await world.advance(LEASE);
    const { engine } = setUp(sharedStore(store), world);
    const taker = engine.execute(repeatable, held.effect);
    await world.advance(0);
    held.end(1, new Error('the bank did not answer'));
    await expect(taker).rejects.toThrow('the bank did not answer');
    const effect = vi.fn(async () => committed('paid'));
    const other = { ...repeatable, fingerprint: 'another payee' };
    expect(await engine.execute(other, effect)).toMatchObject({ reason: 'mismatch' });
    expect(effect).not.toHaveBeenCalled();
    expect(await engine.execute(repeatable, effect)).toMatchObject({ attempt: 3 });
  });

  it('[E3] stays bound to its request when an effect that is safe to repeat throws', async () => {
    const { engine } = setUp();
    const pay = { ...repeatable, effect: { kind: 'downstream' as const } };
    const thrown = engine.execute(pay, () => Promise.reject(new Error('the bank did not answer')));
    await expect(thrown).rejects.toThrow('the bank did not answer');
    const other = { ...pay, fingerprint: 'another payee' };
    const effect = vi.fn(async () => committed('paid'));
    expect(await engine.execute(other, effect)).toMatchObject({ reason: 'mismatch' });
    expect(effect).not.toHaveBeenCalled();
    expect(await engine.execute(pay, effect)).toMatchObject({ kind: 'executed', attempt: 2 });
  });

  it('is free again when the effect says that nothing happened, whatever its kind', async () => {
    const { engine } = setUp();
    const pay = { ...repeatable, effect: { kind: 'downstream' as const } };
    await engine.execute(pay, async () => ({ as: 'released' }));
    await expect(
      engine.execute(pay, () => Promise.reject(new NothingDone('gone'))),
    ).rejects.toThrow('gone');
    expect(await engine.read(pay.id)).toBeNull();
    const other = { ...pay, fingerprint: 'another payee' };
    expect(await engine.execute(other, async () => committed('paid'))).toMatchObject({
      kind: 'executed',
    });
  });
});

describe('what a closed engine or a caller that left is waiting for', () => {
  it('[E6] a probe that never answers does not hold a caller that has left', async () => {
    const { engine } = setUp();
    const doubtful = async () => ({ as: 'in_doubt' }) as const;
    await engine.execute(operation, doubtful);
    const leaving = new AbortController();
    const probe = () => new Promise<never>(() => {});
    const asking = engine.execute({ ...operation, probe, signal: leaving.signal }, doubtful);
    await new Promise((resolve) => setImmediate(resolve));
    leaving.abort();
    expect(await asking).toMatchObject({ kind: 'refused', reason: 'in_doubt' });
  });

  it('[E11] a sweep ends at the next record when the engine is closed', async () => {
    const inner = sharedStore(memoryStore());
    let scanned = 0;
    async function* scan(): ReturnType<RecordStore['scan']> {
      for (;;) {
        scanned += 1;
        await new Promise((resolve) => setImmediate(resolve));
        const bytes = new Uint8Array(0);
        yield { id: operation.id, revision: 1, bytes, state: 'pending', dueAt: 1 };
      }
    }
    const { engine } = setUp({ ...inner, scan });
    const sweeping = engine.sweep();
    await new Promise((resolve) => setImmediate(resolve));
    await engine.close();
    await sweeping;
    expect(scanned).toBeLessThan(10);
  });

  it('[E12] a list of a store that falls silent ends with a coded error', async () => {
    async function* scan(): ReturnType<RecordStore['scan']> {
      await new Promise(() => {});
    }
    const { engine, world } = setUp({ ...sharedStore(memoryStore()), scan });
    const listing = whileTimePasses(
      world,
      engine.list({ limit: 1 })[Symbol.asyncIterator]().next(),
    );
    await expect(listing).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
  });
});
