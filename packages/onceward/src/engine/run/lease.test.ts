import { describe, expect, it, vi } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { manualWorld } from '../../testing/manual-world.ts';
import { sharedStore, troubledStore, withTraits } from '../../testing/stores/troubled-store.ts';
import {
  committed,
  heldEffect,
  id,
  LEASE,
  operation,
  repeatable,
  setUp,
} from '../engine.fixture.ts';
import type { Operation } from '../operation.ts';

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
    const refused = { kind: 'refused', reason: 'in_doubt', retry: 'same_key' };
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

  it.each([
    ['a word that is no verdict', { as: 'commited' }],
    ['an outcome without bytes', { as: 'committed', outcome: { contentType: 'text' } }],
    ['no time to keep it', { as: 'void', keepMs: undefined }],
  ])('[E6] by nobody who gives %s', async (_, given) => {
    const { engine, audit } = await inDoubt();
    const verdict = { by: 'ops', reason: 'mistyped', keepMs: 1_000, ...given } as never;
    await expect(engine.resolve(id, verdict)).rejects.toMatchObject({
      code: expect.stringMatching(/^ONCE_INVALID/),
    });
    expect((await engine.read(id))?.state).toBe('in_doubt');
    expect(audit).toEqual([]);
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
