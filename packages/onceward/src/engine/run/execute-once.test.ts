import { describe, expect, it, vi } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { manualWorld } from '../../testing/manual-world.ts';
import { sharedStore } from '../../testing/stores/troubled-store.ts';
import { committed, heldEffect, id, LEASE, operation, setUp } from '../engine.fixture.ts';
import { profiles } from '../profiles.ts';

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

  it('[E2] an arrival that may not wait reads for itself what one that waits has not heard of', async () => {
    const store = sharedStore(memoryStore());
    const world = manualWorld();
    const [here, there] = [setUp(store, world).engine, setUp(store, world).engine];
    const { effect, end } = heldEffect();
    const running = there.execute(operation, effect);
    await world.advance(0);
    const waiting = here.execute(operation, effect);
    await world.advance(1_000);
    end(0, committed('done'));
    await running;
    const policy = { ...operation.policy, waitMs: 0, storeTimeoutMs: 40 };
    const hasty = here.execute({ ...operation, policy }, effect);
    await world.advance(50);
    expect(await hasty).toMatchObject({ kind: 'replayed' });
    await world.advance(1_000);
    expect(await waiting).toMatchObject({ kind: 'replayed' });
  });

  it.each([
    ['an embedded store', memoryStore],
    ['a shared store', () => sharedStore(memoryStore())],
  ])(
    '[E8] leaves an answer that nobody asks for to %s, and remembers what is asked for',
    async (_, open) => {
      const { engine, events } = setUp(open());
      await engine.execute(operation, async () => committed('done'));
      const counts = [engine.near.answers];
      for (const replayCount of [1, 2]) {
        const again = await engine.execute(operation, async () => committed('never'));
        expect(again).toMatchObject({ kind: 'replayed', replayCount });
        counts.push(engine.near.answers);
      }
      const near = events.flatMap((event) => (event.type === 'replayed' ? [event.near] : []));
      expect({ counts, near }).toEqual({ counts: [0, 1, 1], near: [false, true] });
    },
  );

  it('[E8] remembers an answer without what the store has read beside it', async () => {
    const store = sharedStore(memoryStore());
    const { swap } = store;
    store.swap = async (...args) => {
      const result = await swap.apply(store, args);
      if (result.won || result.current === null) return result;
      const { revision, bytes } = result.current;
      const chunk = Buffer.concat([bytes, Buffer.alloc(100_000)]);
      return { won: false, current: { revision, bytes: chunk.subarray(0, bytes.length) } };
    };
    const { engine } = setUp(store);
    await engine.execute(operation, async () => committed('done'));
    const again = await engine.execute(operation, async () => committed('never'));
    const outcome = again.kind === 'replayed' ? again.outcome : null;
    expect(Buffer.from(outcome!.bytes).toString()).toBe('done');
    expect(outcome!.bytes.buffer.byteLength).toBeLessThan(100);
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
