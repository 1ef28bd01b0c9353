import { describe, expect, it, vi } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { manualWorld } from '../../testing/manual-world.ts';
import { sharedStore, troubledStore } from '../../testing/stores/troubled-store.ts';
import { committed, id, operation, setUp } from '../engine.fixture.ts';
import { profiles } from '../profiles.ts';
import { OutcomeUnknown } from './attempt.ts';

describe('how an effect ends', () => {
  it('a thrown error frees the key by default and reaches the caller as it is', async () => {
    const { engine } = setUp();
    const error = new Error('card declined');
    const thrown = engine.execute(operation, async () => {
      throw error;
    });
    await expect(thrown).rejects.toBe(error);
    expect(await engine.execute(operation, async () => committed('ok'))).toMatchObject({
      kind: 'executed',
    });
  });

  it('a thrown error is kept where the policy says reject', async () => {
    const { engine } = setUp();
    const sync = { ...operation, policy: profiles.sync };
    const thrown = engine.execute(sync, async () => {
      throw new Error('card declined');
    });
    await expect(thrown).rejects.toThrow('card declined');
    const again = await engine.execute(sync, async () => committed('ok'));
    expect(again).toMatchObject({ kind: 'replayed', state: 'rejected' });
  });

  it('[E6] OutcomeUnknown puts the record in doubt, whatever the policy says', async () => {
    const { engine } = setUp();
    const thrown = engine.execute(operation, async () => {
      throw new OutcomeUnknown('the bank did not answer');
    });
    await expect(thrown).rejects.toThrow('the bank did not answer');
    const again = await engine.execute(operation, async () => committed('ok'));
    expect(again).toMatchObject({ kind: 'refused', reason: 'in_doubt' });
  });

  it('a caller that has left before the effect began leaves no run and no record', async () => {
    const { engine } = setUp();
    const never = vi.fn(async () => committed('late'));
    const signal = AbortSignal.abort();
    expect(await engine.execute({ ...operation, signal }, never)).toMatchObject({
      reason: 'deadline',
    });
    expect(never).not.toHaveBeenCalled();
    expect(await engine.read(id)).toBeNull();
  });

  it('[E13] an outcome above the limit is recorded as not retained: it ran once', async () => {
    const { engine } = setUp();
    const tight = { ...operation, policy: { ...profiles.http, maxOutcomeBytes: 10 } };
    const effect = vi.fn(async () => committed('x'.repeat(11)));
    expect(await engine.execute(tight, effect)).toMatchObject({ kind: 'executed', recorded: true });
    const again = await engine.execute(tight, effect);
    expect(again).toMatchObject({ kind: 'replayed' });
    expect(again.kind === 'replayed' && again.outcome.contentType).toContain('not-retained');
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[E13] a large outcome is packed, and read back unchanged by an engine that did not write it', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const [one, two] = [setUp(store, world).engine, setUp(store, world).engine];
    const text = 'repeat me '.repeat(10_000);
    await one.execute(operation, async () => committed(text));
    const [record] = [await one.read(id)];
    expect(record!.record).toMatchObject({ outcome: { codec: 1, size: text.length } });
    const again = await two.execute(operation, async () => committed('no'));
    expect(again.kind === 'replayed' && Buffer.from(again.outcome.bytes).toString()).toBe(text);
  });
});

describe('steps', () => {
  it('[E14] an attempt that takes over skips the steps already done', async () => {
    const { engine } = setUp();
    const charge = vi.fn(async () => ({ charge: 'ch_1' }));
    const failing = engine.execute(operation, async (attempt) => {
      await attempt.step('charge', charge);
      throw new Error('mail server is down');
    });
    await expect(failing).rejects.toThrow('mail server is down');
    const done = await engine.execute(operation, async (attempt) => {
      const { charge: made } = await attempt.step('charge', charge);
      return committed(`attempt ${attempt.number}: ${made}`);
    });
    expect(charge).toHaveBeenCalledTimes(1);
    expect(done).toMatchObject({ kind: 'executed', attempt: 2 });
  });

  it('[E14] [E2] a step that outlives its effect does not bring the settled record back', async () => {
    const { engine, store } = setUp();
    let finish = () => {};
    let straggling: Promise<unknown> = Promise.resolve();
    const done = await engine.execute(operation, async (attempt) => {
      await attempt.step('charge', async () => 1);
      const slow = new Promise<void>((resolve) => {
        finish = resolve;
      });
      straggling = attempt.step('mail', () => slow);
      return committed('charged');
    });
    expect(done).toMatchObject({ kind: 'executed', recorded: true });
    const settled = await store.read(id);
    finish();
    await expect(straggling).rejects.toMatchObject({ code: 'ONCE_FENCE_LOST' });
    expect(await store.read(id)).toEqual(settled);
  });

  it('[E14] refuses the steps of another request under the same key', async () => {
    const { engine } = setUp();
    const failing = engine.execute(operation, async (attempt) => {
      await attempt.step('charge', async () => 1);
      throw new Error('down');
    });
    await expect(failing).rejects.toThrow('down');
    const other = { ...operation, fingerprint: 'g' };
    expect(await engine.execute(other, async () => committed(''))).toMatchObject({
      reason: 'mismatch',
    });
  });
});

describe('a store in trouble', () => {
  it('[E12] is refused with a hint, and the effect does not run', async () => {
    const store = troubledStore(memoryStore());
    const { engine } = setUp(store);
    store.trouble = 'down';
    const never = vi.fn(async () => committed(''));
    expect(await engine.execute(operation, never)).toMatchObject({
      kind: 'refused',
      reason: 'store_unavailable',
      retry: 'same_key',
      retryAfterMs: 1_000,
    });
    expect(never).not.toHaveBeenCalled();
  });

  it('[E12] that is frozen is given up within the bound, and nothing runs on thaw', async () => {
    const store = troubledStore(memoryStore());
    const { engine, world } = setUp(store);
    store.trouble = 'frozen';
    const never = vi.fn(async () => committed(''));
    const result = engine.execute(operation, never);
    await world.advance(profiles.http.storeTimeoutMs);
    expect(await result).toMatchObject({ reason: 'store_unavailable' });
    store.trouble = null;
    await world.advance(60_000);
    expect(never).not.toHaveBeenCalled();
  });

  it('[E12] that is frozen is given up once for all arrivals of a process', async () => {
    const store = troubledStore(memoryStore());
    const { engine, world } = setUp(store);
    store.trouble = 'frozen';
    const patient = { ...operation, policy: { ...profiles.http, waitMs: 30_000 } };
    const never = vi.fn(async () => committed(''));
    const arrivals = Array.from({ length: 8 }, () => engine.execute(patient, never));
    await world.advance(profiles.http.storeTimeoutMs);
    for (const refusal of await Promise.all(arrivals)) {
      expect(refusal).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    }
    expect(never).not.toHaveBeenCalled();
  });

  it('[E12] runs unprotected where that was chosen, and counts it', async () => {
    const store = troubledStore(memoryStore());
    const { engine, types } = setUp(store);
    store.trouble = 'down';
    const policy = { ...profiles.http, onStoreDown: 'run_unprotected' } as const;
    const effect = vi.fn(async () => committed(''));
    const result = await engine.execute({ ...operation, policy }, effect);
    expect(result).toMatchObject({ kind: 'executed', recorded: false });
    expect(types()).toContain('unprotected');
  });

  it('an effect that fails with a store error of its own is not run again unprotected', async () => {
    const { engine } = setUp();
    const policy = { ...profiles.http, onStoreDown: 'run_unprotected' } as const;
    const inner = troubledStore(memoryStore());
    inner.trouble = 'down';
    const effect = vi.fn(async () => {
      await inner.read(id);
      return committed('');
    });
    await expect(engine.execute({ ...operation, policy }, effect)).rejects.toThrow('connection');
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[E5] a claim whose reply was lost is recognised and runs once', async () => {
    const store = troubledStore(memoryStore());
    const { engine } = setUp(store);
    store.troubleWith = { verb: 'swap', trouble: 'reply_lost' };
    const effect = vi.fn(async () => {
      store.troubleWith = null;
      return committed('done');
    });
    expect(await engine.execute(operation, effect)).toMatchObject({ kind: 'executed' });
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[E12] a claim that nobody waited for is taken back, so that the key is not blocked', async () => {
    const store = troubledStore(memoryStore());
    const { engine, world } = setUp(store);
    store.trouble = 'reply_lost';
    const never = vi.fn(async () => committed('never'));
    expect(await engine.execute(operation, never)).toMatchObject({ reason: 'store_unavailable' });
    store.trouble = null;
    await world.advance(1_000);
    expect(await engine.read(id)).toBeNull();
    expect(never).not.toHaveBeenCalled();
  });

  it('[E12] so is one that reaches the store when its absence was already seen', async () => {
    const inner = memoryStore();
    const { engine, world } = setUp({
      traits: inner.traits,
      read: (at) => inner.read(at),
      swap: async (at, expected, next) => {
        if (expected === null)
          await new Promise<void>((resolve) => world.startTimer(5_000, resolve));
        return inner.swap(at, expected, next);
      },
      scan: (query) => inner.scan(query),
      count: () => inner.count(),
      close: () => inner.close(),
    });
    const never = vi.fn(async () => committed('never'));
    const asked = engine.execute(operation, never);
    await world.advance(operation.policy.storeTimeoutMs);
    expect(await asked).toMatchObject({ reason: 'store_unavailable' });
    await world.advance(4_500);
    expect(await engine.read(id)).toMatchObject({ state: 'pending' });
    await world.advance(6_000);
    expect(await engine.read(id)).toBeNull();
    expect(never).not.toHaveBeenCalled();
  });

  it('[E5] a settle whose reply was lost is recognised as written', async () => {
    const store = troubledStore(memoryStore());
    const { engine } = setUp(store);
    const result = await engine.execute(operation, async () => {
      store.troubleWith = { verb: 'swap', trouble: 'reply_lost' };
      return committed('done');
    });
    expect(result).toMatchObject({ kind: 'executed', recorded: true });
    expect(await engine.execute(operation, async () => committed('no'))).toMatchObject({
      kind: 'replayed',
    });
  });

  it('that dies mid-effect does not cost the caller its answer; the record is written when it is back', async () => {
    const store = troubledStore(memoryStore());
    const { engine, world, types } = setUp(store);
    const result = await engine.execute(operation, async () => {
      store.trouble = 'down';
      return committed('done');
    });
    expect(result).toMatchObject({ kind: 'executed', recorded: false });
    store.trouble = null;
    await world.advance(1_000);
    const never = vi.fn(async () => committed('again'));
    expect(await engine.execute(operation, never)).toMatchObject({ kind: 'replayed' });
    expect(never).not.toHaveBeenCalled();
    expect(types()).toContain('unrecorded');
  });

  it('that lost a thousand claims still has room for the answer of the next one', async () => {
    const store = troubledStore(memoryStore());
    const { engine, world, types } = setUp(store);
    store.troubleWith = { verb: 'swap', trouble: 'request_lost' };
    for (let at = 0; at < 1_000; at += 1) {
      const lost = { ...operation, id: { ...id, key: `lost ${at}` } };
      expect(await engine.execute(lost, async () => committed(''))).toMatchObject({
        reason: 'store_unavailable',
      });
    }
    store.troubleWith = null;
    await engine.execute(operation, async () => {
      store.trouble = 'down';
      return committed('done');
    });
    expect(types()).not.toContain('late_settle_dropped');
    store.trouble = null;
    await world.advance(1_000);
    const never = vi.fn(async () => committed('again'));
    expect(await engine.execute(operation, never)).toMatchObject({ kind: 'replayed' });
  });

  it('[E10] an unreadable record is in doubt, is listed as such, and is never written over', async () => {
    const store = troubledStore(memoryStore());
    const { engine, types } = setUp(store);
    await store.overwrite(id, Buffer.from('not a record of ours'));
    const never = vi.fn(async () => committed(''));
    expect(await engine.execute(operation, never)).toMatchObject({ reason: 'in_doubt' });
    expect(never).not.toHaveBeenCalled();
    expect(await engine.read(id)).toMatchObject({ state: 'in_doubt', record: null });
    expect(types()).toContain('unreadable');
    const as = { by: 'ops', reason: 'checked', keepMs: 1 };
    await expect(engine.resolve(id, { as: 'committed', ...as })).rejects.toMatchObject({
      code: 'ONCE_RECORD_UNREADABLE',
    });
    expect(await engine.resolve(id, { as: 'void', ...as })).toEqual({ done: true });
  });
});
