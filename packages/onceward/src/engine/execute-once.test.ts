import { describe, expect, it, vi } from 'vitest';
import { nodePlatform } from '../runtime/node-platform.ts';
import { memoryStore } from '../stores/memory/index.ts';
import { manualWorld } from '../testing/manual-world.ts';
import { sharedStore, troubledStore, withTraits } from '../testing/troubled-store.ts';
import { OutcomeUnknown } from './attempt.ts';
import { Engine } from './engine.ts';
import type { AuditLine, EngineEvent } from './events.ts';
import type { Attempt, Operation, Settlement } from './operation.ts';
import { profiles } from './profiles.ts';
import type { RecordStore } from './record-store.ts';

const id = { scope: 'tenant-1', key: 'key-1' };
const operation: Operation = {
  id,
  fingerprint: 'f',
  effect: { kind: 'external', onLapse: 'in_doubt' },
  policy: profiles.http,
};
const repeatable: Operation = { ...operation, effect: { kind: 'external', onLapse: 'take_over' } };
const LEASE = profiles.http.leaseMs;

function committed(text: string): Settlement {
  return { as: 'committed', outcome: { contentType: 'text', bytes: Buffer.from(text) } };
}

function setUp(store: RecordStore = memoryStore(), world = manualWorld()) {
  const events: EngineEvent[] = [];
  const audit: AuditLine[] = [];
  const engine = new Engine({
    store,
    world,
    platform: nodePlatform(),
    sweep: false,
    observe: (event) => void events.push(event),
    audit: async (line) => void audit.push(line),
  });
  const types = () => events.map(({ type }) => type);
  return { engine, world, store, events, types, audit };
}

/** An effect that runs until it is told how to end. */
function heldEffect() {
  const attempts: Attempt[] = [];
  const ends: ((settlement: Settlement | Error) => void)[] = [];
  const effect = (attempt: Attempt) =>
    new Promise<Settlement>((resolve, reject) => {
      attempts.push(attempt);
      ends.push((end) => (end instanceof Error ? reject(end) : resolve(end)));
    });
  return { effect, attempts, end: (index: number, by: Settlement | Error) => ends[index]!(by) };
}

describe('one run', () => {
  it('[E1] runs once for any number of arrivals at once, and gives all the same answer', async () => {
    const { engine, world } = setUp();
    const effect = vi.fn(async () => committed('done'));
    const arrivals = Array.from({ length: 50 }, () => engine.execute(operation, effect));
    await world.advance(0);
    const results = await Promise.all(arrivals);
    expect(effect).toHaveBeenCalledTimes(1);
    expect(results.filter(({ kind }) => kind === 'executed')).toHaveLength(1);
    const replays = results.filter((result) => result.kind === 'replayed');
    expect(replays).toHaveLength(49);
    for (const { outcome } of replays) expect(Buffer.from(outcome.bytes).toString()).toBe('done');
    expect(replays.map(({ replayCount }) => replayCount).sort((a, b) => a - b)[0]).toBe(1);
  });

  it('[E1] runs once for arrivals at several engines on one store', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const engines = [1, 2, 3].map(() => setUp(store, world).engine);
    const effect = vi.fn(async () => committed('done'));
    const arrivals = Array.from({ length: 30 }, (_, i) =>
      engines[i % 3]!.execute(operation, effect),
    );
    await world.advance(2_000);
    const kinds = (await Promise.all(arrivals)).map(({ kind }) => kind);
    expect(effect).toHaveBeenCalledTimes(1);
    expect(kinds.filter((kind) => kind === 'replayed')).toHaveLength(29);
  });

  it('[E2] answers later arrivals from the record until retention, counted from settling, ends', async () => {
    const { engine, world } = setUp();
    const { effect, end } = heldEffect();
    const first = engine.execute(operation, effect);
    await world.advance(LEASE - 1);
    end(0, committed('one'));
    await first;
    await world.advance(profiles.http.keepCommittedMs - 1);
    expect((await engine.execute(operation, effect)).kind).toBe('replayed');
    await world.advance(1);
    const again = vi.fn(async () => committed('two'));
    expect((await engine.execute(operation, again)).kind).toBe('executed');
    expect(again).toHaveBeenCalledTimes(1);
  });

  it('[E2] replays a rejection as a rejection', async () => {
    const { engine } = setUp();
    const outcome = { contentType: 'text', bytes: Buffer.from('no') };
    await engine.execute(operation, async () => ({ as: 'rejected', outcome }));
    const again = await engine.execute(operation, async () => committed('yes'));
    expect(again).toMatchObject({ kind: 'replayed', state: 'rejected' });
  });

  it('[E3] refuses another fingerprint while it runs, after it settled, and from another engine', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const { engine, types } = setUp(store, world);
    const elsewhere = setUp(store, world).engine;
    const other = { ...operation, fingerprint: 'g' };
    const mismatch = { kind: 'refused', reason: 'mismatch', retry: 'new_key' };
    const never = vi.fn(async () => committed('other'));
    const { effect, end } = heldEffect();
    const first = engine.execute(operation, effect);
    await world.advance(0);
    expect(await engine.execute(other, never)).toMatchObject(mismatch);
    expect(await elsewhere.execute(other, never)).toMatchObject(mismatch);
    end(0, committed('one'));
    await first;
    expect(await engine.execute(other, never)).toMatchObject(mismatch);
    expect(await elsewhere.execute(other, never)).toMatchObject(mismatch);
    expect(never).not.toHaveBeenCalled();
    expect(types().filter((type) => type === 'mismatch')).toHaveLength(2);
    expect(await elsewhere.execute(operation, never)).toMatchObject({ kind: 'replayed' });
  });

  it('[E9] keeps scopes apart', async () => {
    const { engine } = setUp();
    const effect = vi.fn(async () => committed('done'));
    await engine.execute(operation, effect);
    const other = { ...operation, id: { scope: 'tenant-2', key: id.key } };
    expect((await engine.execute(other, effect)).kind).toBe('executed');
    expect(await engine.read({ scope: 'tenant-3', key: id.key })).toBeNull();
  });
});

describe('waiting', () => {
  it('[E4] waits for a run of this process and is woken by its settle', async () => {
    const { engine, world, types } = setUp();
    const { effect, end } = heldEffect();
    const first = engine.execute(operation, effect);
    const second = engine.execute(operation, effect);
    await world.advance(1_500);
    end(0, committed('done'));
    await first;
    expect(await second).toMatchObject({ kind: 'replayed', replayCount: 1 });
    expect(types()).toContain('waited');
  });

  it('[E4] refuses when the budget is spent, and never runs a second time', async () => {
    const { engine, world } = setUp();
    const { effect, attempts, end } = heldEffect();
    const first = engine.execute(operation, effect);
    const second = engine.execute(operation, effect);
    await world.advance(profiles.http.waitMs);
    expect(await second).toMatchObject({
      kind: 'refused',
      reason: 'in_progress',
      retry: 'same_key',
    });
    end(0, committed('done'));
    await first;
    await world.advance(LEASE);
    expect(attempts).toHaveLength(1);
  });

  it('[E4] refuses at once where the policy does not wait', async () => {
    const { engine, world } = setUp();
    const sync = { ...operation, policy: profiles.sync };
    const { effect, end } = heldEffect();
    const first = engine.execute(sync, effect);
    await world.advance(0);
    expect(await engine.execute(sync, effect)).toMatchObject({ reason: 'in_progress' });
    end(0, committed('done'));
    await first;
  });

  it('[E4] waits for a run of another process by polling', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const [one, two] = [setUp(store, world).engine, setUp(store, world).engine];
    const { effect, end, attempts } = heldEffect();
    const first = one.execute(operation, effect);
    await world.advance(0);
    const second = two.execute(operation, effect);
    await world.advance(500);
    end(0, committed('done'));
    await world.advance(1_000);
    expect(await first).toMatchObject({ kind: 'executed' });
    expect(await second).toMatchObject({ kind: 'replayed' });
    expect(attempts).toHaveLength(1);
  });

  it('lets those behind a run that was released run in turn, one at a time', async () => {
    const { engine, world } = setUp();
    const { effect, attempts, end } = heldEffect();
    const arrivals = [1, 2, 3].map(() => engine.execute(operation, effect));
    await world.advance(0);
    end(0, { as: 'released' });
    await world.advance(0);
    expect(attempts).toHaveLength(2);
    end(1, committed('done'));
    await world.advance(0);
    const kinds = (await Promise.all(arrivals)).map(({ kind }) => kind);
    expect(kinds.sort()).toEqual(['executed', 'executed', 'replayed']);
  });
});

describe('leases and fences', () => {
  it('[E5] a heartbeat keeps a long effect alive for many leases', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const [one, two] = [setUp(store, world).engine, setUp(store, world).engine];
    const { effect, attempts, end } = heldEffect();
    const first = one.execute(repeatable, effect);
    await world.advance(5 * LEASE);
    const second = two.execute(repeatable, effect);
    await world.advance(5_000);
    expect(await second).toMatchObject({ kind: 'refused', reason: 'in_progress' });
    end(0, committed('done'));
    expect(await first).toMatchObject({ kind: 'executed', recorded: true });
    expect(attempts).toHaveLength(1);
  });

  it('[E5] a late writer loses, is told so, and gets the answer of the attempt that took over', async () => {
    const store = memoryStore();
    const world = manualWorld();
    const paused = troubledStore(sharedStore(store));
    const { engine: one, types } = setUp(paused, world);
    const { engine: two } = setUp(sharedStore(store), world);
    const { effect, attempts, end } = heldEffect();
    const late = one.execute(repeatable, effect);
    await world.advance(0);
    paused.trouble = 'frozen';
    await world.advance(LEASE);
    const taker = two.execute(repeatable, effect);
    await world.advance(0);
    expect(attempts.map(({ number }) => number)).toEqual([1, 2]);
    expect(attempts[1]!.fence).toBeGreaterThan(attempts[0]!.fence);
    end(1, committed('second'));
    expect(await taker).toMatchObject({ kind: 'executed', attempt: 2, recorded: true });
    paused.trouble = null;
    end(0, committed('first'));
    await world.advance(5_000);
    const told = await late;
    expect(told).toMatchObject({ kind: 'replayed', attempt: 2 });
    expect(attempts[0]!.signal.aborted).toBe(true);
    expect(types()).toContain('fence_lost');
  });

  it('[E6] puts a lapsed claim in doubt, refuses, and never runs it again by itself', async () => {
    const store = memoryStore();
    const world = manualWorld();
    const dead = troubledStore(sharedStore(store));
    const { engine: one } = setUp(dead, world);
    const { engine: two, types } = setUp(sharedStore(store), world);
    void one.execute(operation, () => new Promise(() => {}));
    await world.advance(0);
    dead.trouble = 'frozen';
    await world.advance(LEASE);
    const never = vi.fn(async () => committed('again'));
    const refused = { kind: 'refused', reason: 'in_doubt', retry: 'never' };
    expect(await two.execute(operation, never)).toMatchObject(refused);
    await world.advance(24 * 3_600_000);
    await two.sweep();
    expect(await two.execute(operation, never)).toMatchObject(refused);
    expect(never).not.toHaveBeenCalled();
    expect(await two.count()).toMatchObject({ in_doubt: 1 });
    expect(types()).toContain('in_doubt');
  });

  it('[E6] the sweeper finds a lapsed claim that nobody asks about', async () => {
    const store = memoryStore();
    const world = manualWorld();
    const dead = troubledStore(sharedStore(store));
    void setUp(dead, world).engine.execute(operation, () => new Promise(() => {}));
    const { engine: two } = setUp(sharedStore(store), world);
    await world.advance(0);
    dead.trouble = 'frozen';
    await world.advance(LEASE);
    expect(await two.sweep()).toMatchObject({ doubted: 1 });
    const listed = [];
    for await (const view of two.list({ states: ['in_doubt'], limit: 10 })) listed.push(view.id);
    expect(listed).toEqual([id]);
  });

  it('[E6] a doubt is resolved by the late commit of the same attempt, with an audit line', async () => {
    const store = memoryStore();
    const world = manualWorld();
    const paused = troubledStore(sharedStore(store));
    const { engine: one, audit } = setUp(paused, world);
    const { engine: two } = setUp(sharedStore(store), world);
    const { effect, end } = heldEffect();
    const late = one.execute(operation, effect);
    await world.advance(0);
    paused.trouble = 'frozen';
    await world.advance(LEASE);
    expect(await two.execute(operation, effect)).toMatchObject({ reason: 'in_doubt' });
    paused.trouble = null;
    end(0, committed('at last'));
    await world.advance(5_000);
    expect(await late).toMatchObject({ kind: 'executed', recorded: true });
    expect(await two.execute(operation, effect)).toMatchObject({ kind: 'replayed' });
    expect(audit).toMatchObject([{ action: 'late_commit', from: 'in_doubt', by: 'attempt' }]);
  });

  it('[E6] a claim of an earlier life of an embedded store has lapsed when it is opened again', async () => {
    const store = memoryStore();
    const world = manualWorld();
    void setUp(store, world).engine.execute(operation, () => new Promise(() => {}));
    await world.advance(0);
    const reborn = withTraits(store, { firstRevisionOfLife: 100 });
    const { engine } = setUp(reborn, world);
    const never = vi.fn(async () => committed('again'));
    expect(await engine.execute(operation, never)).toMatchObject({ reason: 'in_doubt' });
    expect(never).not.toHaveBeenCalled();
  });

  it('a clock that jumps ahead lets a lease lapse early, and the fence still decides', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const [one, two] = [setUp(store, world).engine, setUp(store, world).engine];
    const { effect, end, attempts } = heldEffect();
    const first = one.execute(repeatable, effect);
    await world.advance(0);
    world.jumpClock(10 * LEASE);
    const second = two.execute(repeatable, effect);
    await world.advance(0);
    end(0, committed('first'));
    end(1, committed('second'));
    await world.advance(5_000);
    const answers = [await first, await second];
    expect(attempts).toHaveLength(2);
    expect(answers.map(({ kind }) => kind)).toEqual(['replayed', 'executed']);
  });
});

describe('resolving doubts', () => {
  async function inDoubt(probe?: Operation['probe']) {
    const parts = setUp();
    const doubtful = probe === undefined ? operation : { ...operation, probe };
    await parts.engine.execute(operation, async () => ({ as: 'in_doubt' }));
    return { ...parts, doubtful };
  }

  it('[E6] by an operator, as committed, with an audit line before the change', async () => {
    const { engine, audit } = await inDoubt();
    const verdict = {
      as: 'committed',
      by: 'ops',
      reason: 'seen at the bank',
      keepMs: 1_000,
    } as const;
    expect(await engine.resolve(id, verdict)).toEqual({ done: true });
    const never = vi.fn(async () => committed('again'));
    expect(await engine.execute(operation, never)).toMatchObject({ kind: 'replayed' });
    expect(audit).toMatchObject([{ action: 'resolve', by: 'ops', to: 'committed' }]);
    expect(await engine.resolve(id, verdict)).toEqual({ done: false, why: 'not_in_doubt' });
  });

  it('[E6] by an operator, as void: then it may run', async () => {
    const { engine } = await inDoubt();
    await engine.resolve(id, { as: 'void', by: 'ops', reason: 'not there', keepMs: 1_000 });
    const effect = vi.fn(async () => committed('again'));
    expect(await engine.execute(operation, effect)).toMatchObject({ kind: 'executed' });
  });

  it('[E6] by a probe that finds the effect', async () => {
    const { engine, doubtful, audit } = await inDoubt(async () => ({
      found: 'committed',
      outcome: { contentType: 'text', bytes: Buffer.from('found') },
    }));
    const never = vi.fn(async () => committed('again'));
    const found = await engine.execute(doubtful, never);
    expect(found).toMatchObject({ kind: 'replayed', state: 'committed' });
    expect(never).not.toHaveBeenCalled();
    expect(audit).toMatchObject([{ by: 'probe' }]);
  });

  it('[E6] by a probe that finds nothing: then it runs', async () => {
    const { engine, doubtful } = await inDoubt(async () => ({ found: 'nothing' }));
    const effect = vi.fn(async () => committed('again'));
    expect(await engine.execute(doubtful, effect)).toMatchObject({ kind: 'executed' });
    expect(effect).toHaveBeenCalledTimes(1);
  });

  it('[E6] not by a probe that cannot tell, or that fails', async () => {
    for (const probe of [
      async () => ({ found: 'unknown' }) as const,
      async () => {
        throw new Error('probe is down');
      },
    ]) {
      const { engine, doubtful } = await inDoubt(probe);
      const never = vi.fn(async () => committed('again'));
      expect(await engine.execute(doubtful, never)).toMatchObject({ reason: 'in_doubt' });
      expect(never).not.toHaveBeenCalled();
    }
  });
});

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
