import { describe, expect, it } from 'vitest';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import { manualWorld } from '../../testing/manual-world.ts';
import { sharedStore } from '../../testing/stores/troubled-store.ts';
import { Engine } from '../engine.ts';
import type { Effect, Operation } from '../operation.ts';
import { profiles } from '../profiles.ts';
import { DAY } from '../units.ts';
import type { Work } from './placement.ts';

const id = { scope: 'tests', key: 'work' };
const operation: Operation = {
  id,
  fingerprint: 'f',
  effect: { kind: 'external', onLapse: 'take_over' },
  policy: { ...profiles.http, waitMs: 0 },
};
const work: Work = {
  id,
  fingerprint: 'f',
  effect: operation.effect,
  steps: [{ name: 'what', bytes: new TextEncoder().encode('"to do"') }],
  keepMs: DAY,
};
const done = { as: 'committed', outcome: { contentType: '', bytes: new Uint8Array(0) } } as const;

function setUp() {
  const world = manualWorld();
  const engine = new Engine({
    store: sharedStore(memoryStore()),
    world,
    platform: nodePlatform(),
    sweep: false,
  });
  const seen: unknown[] = [];
  const effect: Effect = async (attempt) => {
    const what = await attempt.step('what', async () => 'nothing');
    seen.push([attempt.number, what]);
    return done;
  };
  return { world, engine, seen, effect };
}

describe('placed work', () => {
  it('[E14] is found by the first attempt as a step that is done', async () => {
    const { engine, seen, effect } = setUp();
    expect(await engine.place(work, operation.policy)).not.toBeNull();
    expect(await engine.read(id)).toMatchObject({ state: 'pending', record: { attempt: 0 } });
    expect(await engine.execute(operation, effect)).toMatchObject({ kind: 'executed', attempt: 1 });
    expect(seen).toEqual([[1, 'to do']]);
  });

  it('is placed once, and not over what was done with it', async () => {
    const { engine, effect } = setUp();
    await engine.place(work, operation.policy);
    expect(await engine.place(work, operation.policy)).toBeNull();
    await engine.execute(operation, effect);
    expect(await engine.place(work, operation.policy)).toBeNull();
    expect(await engine.read(id)).toMatchObject({ state: 'committed' });
  });

  it('[E1] runs once when two claim it at the revision they were told of', async () => {
    const { engine, seen, effect } = setUp();
    const placed = await engine.place(work, operation.policy);
    if (placed === null) throw new Error('the place was taken');
    const [first, second] = await Promise.all([
      engine.execute({ ...operation, placed }, effect),
      engine.execute({ ...operation, placed }, effect),
    ]);
    const late = await engine.execute({ ...operation, placed }, effect);
    expect([first.kind, second.kind, late.kind].sort()).toEqual([
      'executed',
      'refused',
      'replayed',
    ]);
    expect(seen).toEqual([[1, 'to do']]);
  });

  it('waits as long as it was told to, and a lost attempt as long as the policy says', async () => {
    const { engine, world } = setUp();
    const policy = { ...operation.policy, keepLapsedMs: 3 * DAY };
    await engine.place(work, policy);
    void engine.execute({ ...operation, policy }, () => new Promise(() => {}));
    await world.advance(1);
    const view = await engine.read(id);
    expect(view?.record).toMatchObject({ keepUntil: world.now() - 1 + policy.leaseMs + 3 * DAY });
  });

  it('is placed where a doubt was resolved as void', async () => {
    const { engine } = setUp();
    await engine.execute(operation, async () => ({ as: 'in_doubt' }));
    const actor = { by: 'ops', reason: 'not there' };
    await engine.resolve(id, { as: 'void', keepMs: DAY, ...actor });
    expect(await engine.place(work, operation.policy)).toMatchObject({ steps: work.steps });
    expect(await engine.place(work, operation.policy)).toBeNull();
  });

  it('that was done elsewhere is known and never run', async () => {
    const { engine, seen, effect } = setUp();
    const { outcome } = done;
    await engine.place({ id, fingerprint: 'f', outcome, keepMs: DAY }, operation.policy);
    expect(await engine.execute(operation, effect)).toMatchObject({ kind: 'replayed' });
    expect(seen).toEqual([]);
  });
});

describe('first steps', () => {
  const firstSteps = [{ name: 'what', bytes: new TextEncoder().encode('"first"') }];

  it('[E14] are those of the first claim, for every attempt after it', async () => {
    const { engine, world, seen } = setUp();
    const lost = () => new Promise<never>(() => {});
    void engine.execute({ ...operation, firstSteps }, lost);
    await world.advance(1);
    const others = [{ name: 'what', bytes: new TextEncoder().encode('"other"') }];
    await engine.close();
    const { policy } = operation;
    const second = await engine.reserve({ ...operation, firstSteps: others });
    expect(second).toMatchObject({ decision: 'in_progress' });
    world.jumpClock(policy.leaseMs + 1);
    const third = await engine.reserve({ ...operation, firstSteps: others });
    expect(third).toMatchObject({ decision: 'claimed', attempt: 2, steps: firstSteps });
    expect(seen).toEqual([]);
  });
});
