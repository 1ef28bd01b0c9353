import Database from 'libsql';
import { describe, expect, it } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { openSqliteStore, type SqliteDatabase, transactionsOn } from '../../stores/sqlite/index.ts';
import { manualWorld } from '../../testing/manual-world.ts';
import { sharedStore, troubledStore } from '../../testing/stores/troubled-store.ts';
import { committed, heldEffect, id, LEASE, operation, setUp } from '../engine.fixture.ts';
import { StoreError } from '../errors.ts';
import type { RecordStore, SwapResult } from '../record-store.ts';

const never = () => new Promise<never>(() => {});

/** Two processes on one store, the first of which cannot reach it for a while. */
function twoProcesses() {
  const store = memoryStore();
  const world = manualWorld();
  const paused = troubledStore(sharedStore(store));
  return { store, world, paused, one: setUp(paused, world), two: setUp(sharedStore(store), world) };
}

describe('an attempt that speaks up late', () => {
  it('[E6] a heartbeat that revives a doubt is audited as alive, not as ended', async () => {
    const { world, paused, one, two } = twoProcesses();
    const { effect, end } = heldEffect();
    const late = one.engine.execute(operation, effect);
    await world.advance(0);
    paused.trouble = 'frozen';
    await world.advance(LEASE);
    await two.engine.sweep();
    expect(await two.engine.read(id)).toMatchObject({ state: 'in_doubt' });
    paused.trouble = null;
    await world.advance(LEASE);
    expect(await two.engine.read(id)).toMatchObject({ state: 'pending' });
    const reason = expect.stringContaining('still alive');
    expect(one.audit).toMatchObject([
      { action: 'late_commit', from: 'in_doubt', to: 'pending', reason },
    ]);
    expect(one.types().filter((type) => type === 'doubt_resolved')).toHaveLength(1);
    end(0, committed('at last'));
    expect(await late).toMatchObject({ recorded: true });
    expect(one.audit).toHaveLength(1);
  });

  it('[E6] what ends a doubt is audited, though a write before it met the doubt and failed', async () => {
    const { world, paused, one, two } = twoProcesses();
    const { effect, end } = heldEffect();
    const late = one.engine.execute(operation, effect);
    await world.advance(0);
    paused.trouble = 'frozen';
    await world.advance(LEASE);
    await two.engine.sweep();
    paused.trouble = null;
    const { swap } = paused;
    let swaps = 0;
    // The heartbeat loses to the doubt, and then the store is down for it.
    paused.swap = async (...args) => {
      swaps += 1;
      if (swaps === 2) {
        paused.trouble = 'down';
        throw new StoreError('ONCE_STORE_UNAVAILABLE', 'not now', { applied: 'no' });
      }
      return swap.apply(paused, args);
    };
    await world.advance(LEASE / 3);
    paused.trouble = null;
    one.audit.length = 0;
    end(0, committed('at last'));
    expect(await late).toMatchObject({ recorded: true });
    expect(one.audit).toMatchObject([{ action: 'late_commit', to: 'committed' }]);
  });

  it('[E6] a reserved attempt that renews or commits after its doubt is audited, and told', async () => {
    for (const [change, to] of [
      [{ as: 'renewed' }, 'pending'],
      [{ as: 'committed', outcome: { contentType: 't', bytes: new Uint8Array(0) } }, 'committed'],
    ] as const) {
      const { engine, world, audit, types } = setUp();
      const reserved = await engine.reserve(operation);
      if (reserved.decision !== 'claimed') throw new Error(reserved.decision);
      await world.advance(LEASE);
      expect(await engine.sweep()).toMatchObject({ doubted: 1 });
      const { fence } = reserved;
      expect(await engine.writeFenced(id, fence, operation.policy, change)).toMatchObject({
        done: true,
      });
      expect(audit).toMatchObject([{ action: 'late_commit', from: 'in_doubt', to }]);
      expect(types()).toContain('doubt_resolved');
    }
  });

  it('[H17] a release and a doubt that are written late are told when they are written', async () => {
    for (const as of ['released', 'in_doubt'] as const) {
      const store = troubledStore(memoryStore());
      const { engine, world, types } = setUp(store);
      const { effect, end } = heldEffect();
      const running = engine.execute(operation, effect);
      await world.advance(0);
      store.trouble = 'down';
      end(0, { as });
      await running;
      expect(types()).not.toContain(as);
      store.trouble = null;
      await world.advance(1_000);
      expect(types()).toContain(as);
    }
  });
});

describe('a claim whose reply was lost', () => {
  /** A store that takes the first claim, says that the call failed, and writes it so much later. */
  function lateStore(world: ReturnType<typeof manualWorld>, ms: number) {
    const inner = sharedStore(memoryStore());
    let isFirst = true;
    const store: RecordStore = {
      traits: inner.traits,
      read: (of) => inner.read(of),
      swap: (of, expected, next): Promise<SwapResult> => {
        if (!isFirst) return inner.swap(of, expected, next);
        isFirst = false;
        world.startTimer(ms, () => void inner.swap(of, expected, next));
        return Promise.reject(new StoreError('ONCE_STORE_UNAVAILABLE', 'the connection is gone'));
      },
      scan: (query) => inner.scan(query),
      count: () => inner.count(),
      close: () => inner.close(),
    };
    return store;
  }

  it('[E12] is taken back when it arrives after the call has failed, and leaves no doubt', async () => {
    const world = manualWorld();
    const { engine } = setUp(lateStore(world, 20_000), world);
    const asked = engine.execute(operation, never);
    await world.advance(0);
    expect(await asked).toMatchObject({ reason: 'store_unavailable' });
    await world.advance(20_000);
    expect(await engine.read(id)).toMatchObject({ state: 'pending' });
    await world.advance(10_000);
    expect(await engine.read(id)).toBeNull();
    await world.advance(LEASE);
    expect(await engine.sweep()).toMatchObject({ doubted: 0 });
  });

  it('[E12] [E6] is taken back where it was doubted meanwhile: its effect never ran', async () => {
    const world = manualWorld();
    const store = troubledStore(lateStore(world, 10));
    const { engine, audit, types } = setUp(store, world);
    const asked = engine.execute(
      { ...operation, policy: { ...operation.policy, leaseMs: 30 } },
      never,
    );
    await world.advance(0);
    expect(await asked).toMatchObject({ reason: 'store_unavailable' });
    store.troubleWith = { verb: 'read', trouble: 'down' };
    await world.advance(500);
    expect(await engine.sweep()).toMatchObject({ doubted: 1 });
    store.troubleWith = null;
    await world.advance(10_000);
    expect(await engine.read(id)).toBeNull();
    expect(audit).toMatchObject([{ action: 'late_commit', from: 'in_doubt', to: 'released' }]);
    expect(types()).toContain('doubt_resolved');
  });

  it('[E5] [E6] keeps its fence where it was doubted meanwhile and its steps are kept', async () => {
    const world = manualWorld();
    const store = troubledStore(lateStore(world, 10));
    const { engine } = setUp(store, world);
    const firstSteps = [{ name: 'what', bytes: new TextEncoder().encode('1') }];
    const policy = { ...operation.policy, leaseMs: 30 };
    const asked = engine.execute({ ...operation, policy, firstSteps }, never);
    await world.advance(0);
    expect(await asked).toMatchObject({ reason: 'store_unavailable' });
    store.troubleWith = { verb: 'read', trouble: 'down' };
    await world.advance(500);
    expect(await engine.sweep()).toMatchObject({ doubted: 1 });
    store.troubleWith = null;
    const doubted = await engine.read(id);
    await world.advance(10_000);
    const released = await engine.read(id);
    expect(released?.record).toMatchObject({ state: 'pending', leaseUntil: 0 });
    expect(released?.record?.fence).toBe(doubted?.record?.fence);
  });
});

describe('what is told', () => {
  it('[H17] effects of kind transaction tell of their claim, and of what was rolled back', async () => {
    const database = new Database(':memory:') as unknown as SqliteDatabase;
    const store = await openSqliteStore({ database });
    const { engine, types } = setUp(store);
    const transact = transactionsOn(database);
    const within = { ...operation, effect: { kind: 'transaction' } } as const;
    const failing = engine.executeWithin(within, transact, async () => {
      throw new Error('on purpose');
    });
    await expect(failing).rejects.toThrow('on purpose');
    expect(types()).toEqual(['claimed', 'released']);
    await engine.executeWithin(within, transact, async () => committed('done'));
    expect(types().slice(2)).toEqual(['claimed', 'settled']);
    await engine.executeWithin(within, transact, never);
    expect(types().slice(4)).toEqual(['replayed']);
    await store.close();
  });

  it('[H17] a transaction that meets a running claim is refused, and emits that it is in progress', async () => {
    const database = new Database(':memory:') as unknown as SqliteDatabase;
    const store = await openSqliteStore({ database });
    const { engine, types } = setUp(store);
    await engine.reserve(operation);
    for (const waitMs of [0, 1_000]) {
      const policy = { ...operation.policy, waitMs };
      const within = { ...operation, policy, effect: { kind: 'transaction' } } as const;
      const refused = await engine.executeWithin(within, transactionsOn(database), never);
      expect(refused).toMatchObject({ reason: 'in_progress', retryAfterMs: 1_000 });
    }
    expect(types()).toEqual(['claimed', 'in_progress', 'in_progress']);
    await store.close();
  });

  it('[E6] [H17] a transaction that meets a lapsed claim is refused in doubt, and leaves the record', async () => {
    const database = new Database(':memory:') as unknown as SqliteDatabase;
    const store = await openSqliteStore({ database });
    const { engine, types, world } = setUp(store);
    await engine.reserve(operation);
    await world.advance(LEASE);
    const probe = async () => ({ found: 'nothing' }) as const;
    const within = { ...operation, probe, effect: { kind: 'transaction' } } as const;
    const refused = await engine.executeWithin(within, transactionsOn(database), never);
    expect(refused).toMatchObject({ reason: 'in_doubt' });
    expect(types()).toEqual(['claimed', 'refused_in_doubt']);
    expect(await engine.read(id)).toMatchObject({ state: 'pending' });
    await store.close();
  });

  it('[H17] a reservation that waited for another process emits that it has waited', async () => {
    const { world, one, two } = twoProcesses();
    const { effect, end } = heldEffect();
    const running = one.engine.execute(operation, effect);
    await world.advance(0);
    const reserving = two.engine.reserve(operation);
    await world.advance(500);
    end(0, committed('done'));
    await running;
    await world.advance(1_000);
    expect(await reserving).toMatchObject({ decision: 'replay', state: 'committed' });
    expect(two.types()).toEqual(['waited', 'replayed']);
  });

  it('[H17] a store that answers a claim with nonsense is emitted as a store error', async () => {
    const { traits, read, scan, count, close } = sharedStore(memoryStore());
    const swap = async () => ({ won: true }) as never;
    const { engine, events } = setUp({ traits, read, scan, count, close, swap });
    expect(await engine.execute(operation, never)).toMatchObject({ reason: 'store_unavailable' });
    expect(events).toMatchObject([{ type: 'store_error', phase: 'claim' }]);
  });

  it('[E11] a sweep that fails tells how many expired records it has left', async () => {
    const store = troubledStore(memoryStore());
    const { engine, world, events } = setUp(store);
    for (let n = 0; n < 5; n += 1) {
      const one = { ...operation, id: { ...id, key: `key-${n}` } };
      await engine.execute(one, async () => committed('done'));
    }
    await world.advance(operation.policy.keepCommittedMs);
    store.troubleWith = { verb: 'swap', trouble: 'down' };
    await expect(engine.sweep()).rejects.toThrow();
    expect(events.at(-1)).toEqual({ type: 'swept', forgotten: 0, stale: 5 });
    store.troubleWith = null;
    expect(await engine.sweep()).toMatchObject({ forgotten: 5, stale: 0 });
  });
});
