import { expect, it } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { troubledStore } from '../../testing/stores/troubled-store.ts';
import { committed, heldEffect, operation, repeatable, setUp } from '../engine.fixture.ts';
import type { Attempt, Settlement } from '../operation.ts';
import { profiles } from '../profiles.ts';

const WINDOW = profiles.http.keepCommittedMs;

function counted() {
  let runs = 0;
  const effect = async (_attempt: Attempt): Promise<Settlement> => {
    runs += 1;
    return committed(`run ${runs}`);
  };
  return { effect, runs: () => runs };
}

it('[H20] an absent key that was first sent before its window began is refused, and leaves nothing', async () => {
  const { engine, world, types } = setUp();
  const { effect, runs } = counted();
  const firstSentAt = world.now();
  await engine.execute(operation, effect);
  await world.advance(WINDOW);
  const late = await engine.execute({ ...operation, firstSentAt }, effect);
  expect(late).toMatchObject({ kind: 'refused', reason: 'expired', retry: 'never' });
  expect(types()).toContain('expired');
  await engine.sweep();
  expect(await engine.execute({ ...operation, firstSentAt }, effect)).toEqual(late);
  expect(runs()).toBe(1);
  expect(await engine.read(operation.id)).toBeNull();
});

it('[H20] a key that is there is answered, however long ago it was first sent', async () => {
  const { engine, world, store } = setUp();
  const old = { ...operation, firstSentAt: world.now() - 10 * WINDOW };
  const { effect } = counted();
  await engine.execute(operation, effect);
  for (const process of [engine, setUp(store, world).engine]) {
    expect(await process.execute(old, effect)).toMatchObject({ kind: 'replayed' });
  }
  const mismatch = await engine.execute({ ...old, fingerprint: 'other' }, effect);
  expect(mismatch).toMatchObject({ reason: 'mismatch' });
});

it('[H20] a key that is running is waited for, however long ago it was first sent', async () => {
  const { engine, world } = setUp();
  const old = { ...operation, firstSentAt: world.now() - 10 * WINDOW };
  const held = heldEffect();
  const first = engine.execute(operation, held.effect);
  const second = engine.execute(old, held.effect);
  await world.advance(10);
  held.end(0, committed('done'));
  expect(await first).toMatchObject({ kind: 'executed' });
  expect(await second).toMatchObject({ kind: 'replayed' });
});

it('[H20] an attempt that was lost half-way is taken over, however long ago it was first sent', async () => {
  const { engine, world } = setUp();
  const { effect, runs } = counted();
  const firstSentAt = world.now();
  const throwing = async () => {
    throw new Error('half-way');
  };
  await expect(engine.execute(repeatable, throwing)).rejects.toThrow('half-way');
  await world.advance(WINDOW);
  const old = { ...repeatable, firstSentAt };
  expect(await engine.execute(old, effect)).toMatchObject({ kind: 'executed', attempt: 2 });
  expect(runs()).toBe(1);
});

const verdict = { as: 'void', by: 'ops', reason: 'not there', keepMs: WINDOW } as const;

it.each(['a person', 'a probe'])(
  '[H20] a doubt that %s resolved as void runs again, however long ago it was first sent',
  async (who) => {
    const { engine, world } = setUp();
    const { effect, runs } = counted();
    const firstSentAt = world.now();
    await engine.execute(operation, async () => ({ as: 'in_doubt' }));
    await world.advance(2 * WINDOW);
    if (who === 'a person') await engine.resolve(operation.id, verdict);
    const probe = async () => ({ found: 'nothing' }) as const;
    const retried = await engine.execute({ ...operation, firstSentAt, probe }, effect);
    expect(retried).toMatchObject({ kind: 'executed', attempt: 1 });
    expect(runs()).toBe(1);
  },
);

it('[H20] what was voided is free for another request, counts as no answer, and is forgotten in time', async () => {
  const { engine, world } = setUp();
  const { effect, runs } = counted();
  const other = { ...operation, id: { ...operation.id, key: 'other' } };
  for (const each of [operation, other]) {
    await engine.execute(each, async () => ({ as: 'in_doubt' }));
    expect(await engine.resolve(each.id, verdict)).toEqual({ done: true });
  }
  const renamed = { ...operation, fingerprint: 'another request', firstSentAt: world.now() };
  expect(await engine.execute(renamed, effect)).toMatchObject({ kind: 'executed', attempt: 1 });
  expect(await engine.execute(operation, effect)).toMatchObject({ reason: 'mismatch' });
  expect(await engine.resolve(other.id, verdict)).toEqual({ done: false, why: 'not_in_doubt' });
  expect(await engine.read(other.id)).toMatchObject({
    state: 'pending',
    record: { leaseUntil: 0 },
  });
  await world.advance(WINDOW);
  await engine.sweep();
  expect(await engine.read(other.id)).toBeNull();
  expect(runs()).toBe(1);
});

it('[H20] a key that vanishes between the look and the claim is not run', async () => {
  const store = memoryStore();
  const { engine, world } = setUp(store);
  const throwing = async () => {
    throw new Error('half-way');
  };
  await expect(engine.execute(repeatable, throwing)).rejects.toThrow('half-way');
  const { effect, runs } = counted();
  let vanished = false;
  world.atCrashPoint((point) => {
    if (point !== 'before-claim' || vanished) return;
    vanished = true;
    const found = store.swapNow!(operation.id, null, null);
    if (!found.won) store.swapNow!(operation.id, found.current!.revision, null);
  });
  const old = { ...repeatable, firstSentAt: world.now() - WINDOW };
  expect(await engine.execute(old, effect)).toMatchObject({ reason: 'expired' });
  expect([vanished, runs()]).toEqual([true, 0]);
});

it('[H20] within its window an absent key runs', async () => {
  const { engine, world } = setUp();
  const { effect, runs } = counted();
  const young = { ...operation, firstSentAt: world.now() - WINDOW + 1 };
  expect(await engine.execute(young, effect)).toMatchObject({
    kind: 'executed',
    keptUntil: world.now() + WINDOW,
  });
  expect(runs()).toBe(1);
});

it('[H20] a first sending more than a minute ahead proves nothing, so an absent key does not run', async () => {
  const { engine, world } = setUp();
  const { effect, runs } = counted();
  const ahead = (ms: number) => ({ ...operation, firstSentAt: world.now() + ms });
  expect(await engine.execute(ahead(60_001), effect)).toMatchObject({ reason: 'expired' });
  expect(runs()).toBe(0);
  expect(await engine.execute(ahead(60_000), effect)).toMatchObject({ kind: 'executed' });
});

it('[H20] a server clock that has jumped back does not make an old request young', async () => {
  const { engine, world } = setUp();
  const { effect, runs } = counted();
  const firstSentAt = world.now();
  await world.advance(WINDOW);
  world.jumpClock(-WINDOW);
  const late = await engine.execute({ ...operation, firstSentAt }, effect);
  expect(late).toMatchObject({ reason: 'expired' });
  expect(runs()).toBe(0);
});

it('[H20] with the store down an old request is not run unprotected', async () => {
  const store = troubledStore(memoryStore());
  const { engine, world } = setUp(store);
  const { effect, runs } = counted();
  const policy = { ...profiles.http, onStoreDown: 'run_unprotected' } as const;
  store.trouble = 'down';
  const old = { ...operation, policy, firstSentAt: world.now() - WINDOW };
  expect(await engine.execute(old, effect)).toMatchObject({ reason: 'store_unavailable' });
  expect(runs()).toBe(0);
  expect(await engine.execute({ ...operation, policy }, effect)).toMatchObject({
    kind: 'executed',
    recorded: false,
    keptUntil: null,
  });
});

it('[H20] a young arrival behind an old one is not refused with it', async () => {
  const { engine, world } = setUp();
  const { effect, runs } = counted();
  const old = { ...operation, firstSentAt: world.now() - WINDOW };
  const [late, young] = await Promise.all([
    engine.execute(old, effect),
    engine.execute(operation, effect),
  ]);
  expect(late).toMatchObject({ reason: 'expired' });
  expect(young).toMatchObject({ kind: 'executed' });
  expect(runs()).toBe(1);
});

it('[H20] a reservation of an old key is refused unless the key is there', async () => {
  const { engine, world } = setUp();
  const old = { ...operation, firstSentAt: world.now() - WINDOW };
  expect(await engine.reserve(old)).toEqual({ decision: 'expired' });
  expect(await engine.read(operation.id)).toBeNull();
  await engine.reserve(operation);
  expect(await engine.reserve({ ...old, policy: { ...old.policy, waitMs: 0 } })).toEqual({
    decision: 'in_progress',
  });
});
