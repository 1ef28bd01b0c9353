import { describe, expect, it, vi } from 'vitest';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { memoryStore } from '../../stores/memory/index.ts';
import { type ManualWorld, manualWorld } from '../../testing/manual-world.ts';
import { sharedStore } from '../../testing/stores/troubled-store.ts';
import { Engine } from '../engine.ts';
import { StoreError } from '../errors.ts';
import type { Attempt, Operation, Settlement } from '../operation.ts';
import type { Policy } from '../policy.ts';
import { profiles } from '../profiles.ts';
import type { NextRecord, RecordStore, SwapResult } from '../record-store.ts';
import { OutcomeUnknown } from './attempt.ts';

/** Each of these days was lived through by the simulator first. */

const id = { scope: 'tenant-1', key: 'key-1' };

function operationOf(onLapse: 'in_doubt' | 'take_over', policy: Partial<Policy> = {}): Operation {
  return {
    id,
    fingerprint: 'f',
    effect: { kind: 'external', onLapse },
    policy: { ...profiles.http, waitMs: 0, ...policy },
  };
}

function committed(text: string): Settlement {
  return { as: 'committed', outcome: { contentType: 'text', bytes: Buffer.from(text) } };
}

type Swap = (next: NextRecord | null, swap: () => Promise<SwapResult>) => Promise<SwapResult>;

/** A store whose swaps can be meddled with, one after another. */
function meddledStore(world: ManualWorld) {
  const inner = sharedStore(memoryStore());
  let meddle: Swap = (_next, swap) => swap();
  let readable = true;
  const store: RecordStore = {
    traits: inner.traits,
    read: (of) => (readable ? inner.read(of) : Promise.reject(lost())),
    swap: (of, expected, next) => meddle(next, () => inner.swap(of, expected, next)),
    scan: (query) => inner.scan(query),
    count: () => inner.count(),
    close: () => inner.close(),
  };
  return {
    store,
    world,
    meddle: (by: Swap) => {
      meddle = by;
    },
    setReadable: (is: boolean) => {
      readable = is;
    },
    engine: () =>
      new Engine({ store, world, platform: nodePlatform(), sweep: false, near: { maxEntries: 0 } }),
  };
}

function lost(): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', 'the connection was reset');
}

describe('a bad day', () => {
  it('[E14] a step whose saving was applied but not answered is kept by the next heartbeat', async () => {
    const world = manualWorld();
    const { engine, store, meddle } = meddledStore(world);
    const ran: string[] = [];
    const attempt = engine().execute(operationOf('take_over'), async ({ step }) => {
      meddle(async (_next, swap) => {
        meddle((_, again) => again());
        await swap();
        throw lost();
      });
      await step('charge', async () => ran.push('charge'));
      return new Promise(() => {});
    });
    void attempt;
    await world.advance(profiles.http.leaseMs);
    const view = await engine().read(id);
    expect(view?.record?.steps.map(({ name }) => name)).toEqual(['charge']);
    expect(ran).toEqual(['charge']);
    await store.close();
  });

  it('[E14] a step that happened and could not be saved puts what must not be repeated in doubt', async () => {
    const world = manualWorld();
    const { engine, meddle, setReadable } = meddledStore(world);
    const attempt = engine().execute(operationOf('in_doubt'), async ({ step }) => {
      meddle(() => Promise.reject(lost()));
      setReadable(false);
      await step('charge', async () => 'charged').finally(() => {
        meddle((_next, swap) => swap());
        setReadable(true);
      });
      return committed('done');
    });
    await expect(attempt).rejects.toBeInstanceOf(OutcomeUnknown);
    expect((await engine().read(id))?.state).toBe('in_doubt');
    const again = vi.fn(async () => committed('twice'));
    expect(await engine().execute(operationOf('in_doubt'), again)).toMatchObject({
      reason: 'in_doubt',
    });
    expect(again).not.toHaveBeenCalled();
  });

  it('[E2] an answer that the store learns late is kept from then on, not from the first try', async () => {
    const world = manualWorld();
    const { engine, meddle, setReadable } = meddledStore(world);
    const policy = { keepCommittedMs: 1_000, leaseMs: 600_000 };
    const execution = await engine().execute(operationOf('in_doubt', policy), async () => {
      meddle(() => Promise.reject(lost()));
      setReadable(false);
      return committed('done');
    });
    expect(execution).toMatchObject({ kind: 'executed', recorded: false });
    await world.advance(30_000);
    meddle((_next, swap) => swap());
    setReadable(true);
    const again = vi.fn(async () => committed('twice'));
    const elsewhere = engine();
    for (let waited = 0; (await elsewhere.read(id))?.state === 'pending'; waited += 100) {
      expect(waited).toBeLessThan(10_000);
      await world.advance(100);
    }
    expect((await elsewhere.execute(operationOf('in_doubt', policy), again)).kind).toBe('replayed');
    expect(again).not.toHaveBeenCalled();
  });

  it('[E2] a clock set back in the process that settles does not shorten retention for others', async () => {
    const [fast, slow] = [manualWorld(), manualWorld()];
    const { engine, store } = meddledStore(slow);
    const behind = engine();
    slow.jumpClock(-3_600_000);
    await behind.execute(operationOf('in_doubt'), async () => committed('done'));
    const ahead = new Engine({ store, world: fast, platform: nodePlatform(), sweep: false });
    const again = vi.fn(async () => committed('twice'));
    expect((await ahead.execute(operationOf('in_doubt'), again)).kind).toBe('replayed');
    expect(again).not.toHaveBeenCalled();
  });

  it('[E5] an effect does not begin when renewing its claim took longer than the lease', async () => {
    const world = manualWorld();
    const { engine, meddle } = meddledStore(world);
    const policy = { leaseMs: 100, storeTimeoutMs: 1_000 };
    meddle(async (_next, swap) => {
      const result = await swap();
      await new Promise<void>((resolve) => {
        world.startTimer(300, resolve);
      });
      return result;
    });
    const effect = vi.fn(async () => committed('done'));
    const arrival = engine().execute(operationOf('in_doubt', policy), effect);
    await world.advance(2_000);
    expect(await arrival).toMatchObject({ reason: 'store_unavailable' });
    expect(effect).not.toHaveBeenCalled();
  });

  it('[E5] an effect does not begin for a caller who left while its claim was renewed', async () => {
    const world = manualWorld();
    const { engine, meddle } = meddledStore(world);
    const stop = new AbortController();
    const effect = vi.fn(async () => committed('done'));
    meddle(async (_next, swap) => {
      const result = await swap();
      await new Promise<void>((resolve) => {
        world.startTimer(300, resolve);
      });
      meddle(async (_then, again) => {
        stop.abort();
        return again();
      });
      return result;
    });
    const operation = operationOf('in_doubt', { leaseMs: 100 });
    const arrival = engine().execute({ ...operation, signal: stop.signal }, effect);
    await world.advance(2_000);
    expect(await arrival).toMatchObject({ reason: 'deadline' });
    expect(effect).not.toHaveBeenCalled();
    expect(await engine().read(id)).toBeNull();
  });

  it('[E12] an attempt that was taken over does not run again unprotected when the store goes', async () => {
    const world = manualWorld();
    const { engine, meddle, setReadable } = meddledStore(world);
    const operation = operationOf('take_over', { onStoreDown: 'run_unprotected' });
    const first = engine();
    const effect = vi.fn(async () => {
      const view = await first.read(id);
      await first.purge(id, { by: 'operator', reason: 'a takeover in short' });
      expect(view?.state).toBe('pending');
      meddle(async (_next, swap) => {
        const result = await swap();
        setReadable(false);
        return result;
      });
      return committed('done');
    });
    expect(await first.execute(operation, effect)).toMatchObject({ reason: 'fence_lost' });
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[E12] nothing runs unprotected for a caller who has left', async () => {
    const { engine, meddle, setReadable } = meddledStore(manualWorld());
    meddle(() => Promise.reject(lost()));
    setReadable(false);
    const effect = vi.fn(async () => committed('done'));
    const operation = operationOf('in_doubt', { onStoreDown: 'run_unprotected' });
    const left = { ...operation, signal: AbortSignal.abort() };
    expect(await engine().execute(left, effect)).toMatchObject({ reason: 'deadline' });
    expect(effect).not.toHaveBeenCalled();
  });

  it('[E7] nothing runs in a transaction for a caller who left while it waited', async () => {
    const { store } = meddledStore(manualWorld());
    const engine = new Engine({
      store: Object.assign(store, { within: () => store }),
      world: manualWorld(),
      platform: nodePlatform(),
      sweep: false,
    });
    const effect = vi.fn(async () => committed('done'));
    const transact = <T>(work: (tx: object) => Promise<T>): Promise<T> => work({});
    const operation: Operation = {
      ...operationOf('take_over'),
      effect: { kind: 'transaction' },
      signal: AbortSignal.abort(),
    };
    expect(await engine.executeWithin(operation, transact, effect)).toMatchObject({
      reason: 'deadline',
    });
    expect(effect).not.toHaveBeenCalled();
  });

  it('[E2] extending an answer never makes it end earlier', async () => {
    const world = manualWorld();
    const { engine } = meddledStore(world);
    await engine().execute(operationOf('in_doubt'), async () => committed('done'));
    const before = await engine().read(id);
    await engine().extend(id, 1, { by: 'operator', reason: 'a slip of the finger' });
    const after = await engine().read(id);
    expect(after?.record).toEqual(before?.record);
  });

  it('[E1] a claim that the driver sent twice is not taken for that of somebody else', async () => {
    const { engine, meddle } = meddledStore(manualWorld());
    const sentTwice: Swap = async (_next, swap) => {
      await swap();
      return swap();
    };
    meddle(sentTwice);
    const effect = vi.fn(async () => committed('done'));
    expect(await engine().execute(operationOf('in_doubt'), effect)).toMatchObject({
      kind: 'executed',
      recorded: true,
    });
    const elsewhere = { ...operationOf('in_doubt'), id: { scope: 'tenant-1', key: 'key-2' } };
    expect(await engine().reserve(elsewhere)).toMatchObject({ decision: 'claimed' });
  });

  it('[E14] steps outlive a reservation that was doubted and then given back', async () => {
    const world = manualWorld();
    const { engine } = meddledStore(world);
    const operation = operationOf('in_doubt');
    const ran: string[] = [];
    const walk = (name: string) => async (attempt: Attempt) => {
      await attempt.step('charge', async () => ran.push(name));
      return { as: 'released' } as const;
    };
    await engine().execute(operation, walk('first'));
    const reserved = await engine().reserve(operation);
    if (reserved.decision !== 'claimed') throw new Error('the key should have been free');
    await world.advance(operation.policy.leaseMs + 1);
    await engine().sweep();
    expect((await engine().read(id))?.state).toBe('in_doubt');
    await engine().writeFenced(id, reserved.fence, operation.policy, { as: 'released' });
    await engine().execute(operation, walk('second'));
    expect(ran).toEqual(['first']);
  });

  it('[E11] a scan that is never answered does not end the sweeping', async () => {
    const world = manualWorld();
    const { store } = meddledStore(world);
    let scans = 0;
    const silentOnce: RecordStore = {
      ...store,
      async *scan(query) {
        scans += 1;
        if (scans === 1) await new Promise(() => {});
        yield* store.scan(query);
      },
    };
    const engine = new Engine({
      store: silentOnce,
      world,
      platform: nodePlatform(),
      sweep: { everyMs: 1_000 },
    });
    await engine.execute(operationOf('in_doubt', { keepCommittedMs: 10 }), async () => {
      return committed('done');
    });
    await world.advance(20_000);
    expect(await store.read(id)).toBeNull();
    await engine.close();
  });
});
