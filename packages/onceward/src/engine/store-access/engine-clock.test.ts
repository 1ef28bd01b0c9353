import { describe, expect, it } from 'vitest';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { memoryStore } from '../../stores/memory/index.ts';
import { type ManualWorld, manualWorld } from '../../testing/manual-world.ts';
import { sharedStore } from '../../testing/stores/troubled-store.ts';
import { committed, heldEffect, LEASE, operation, setUp } from '../engine.fixture.ts';
import { Engine } from '../engine.ts';
import type { EngineEvent } from '../events.ts';
import { profiles } from '../profiles.ts';
import type { PendingRecord } from '../record.ts';
import type { RecordStore } from '../record-store.ts';
import { sleep, type World } from '../world.ts';

const TEN_MINUTES = 600_000;
const START = Date.UTC(2030, 0, 1);

/** A store whose clock is right, and a world whose own clock is off by so much from the start. */
function setUpWith(offMs: number, clock?: (world: World) => Promise<number | null>) {
  const world = manualWorld(START + offMs);
  const right = async () => START + world.elapsed();
  const store: RecordStore = {
    ...sharedStore(memoryStore()),
    clock: () => clock?.(world) ?? right(),
  };
  return { ...setUp(store, world), right };
}

const effect = async () => committed('done');

describe('an engine whose store has a clock', () => {
  it('[E2] writes and judges records by it, whatever its own clock says', async () => {
    for (const offMs of [-TEN_MINUTES, 0, TEN_MINUTES]) {
      const { engine, world } = setUpWith(offMs);
      await engine.execute(operation, effect);
      const view = await engine.read(operation.id);
      expect(view?.record).toMatchObject({ keepUntil: START + profiles.http.keepCommittedMs });
      await world.advance(profiles.http.keepCommittedMs - 1);
      expect((await engine.sweep()).forgotten).toBe(0);
      await world.advance(1);
      expect((await engine.sweep()).forgotten).toBe(1);
      await engine.close();
    }
  });

  it('[E12] refuses arrivals until it was read for the first time, then serves them', async () => {
    let isDown = true;
    const { engine, world, right } = setUpWith(TEN_MINUTES, async () => {
      if (isDown) throw new Error('not now');
      return right();
    });
    const refused = await engine.execute(operation, effect);
    expect(refused).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    await expect(engine.reserve(operation)).rejects.toThrow(/clock could not be read/);
    isDown = false;
    await world.advance(1_000);
    expect((await engine.execute(operation, effect)).kind).toBe('executed');
    await engine.close();
  });

  it('[E2] writes no lease that has lapsed already, though the machine slept while it was read', async () => {
    const sleptMs = 5_000;
    const { engine, world } = setUpWith(0, async (own) => {
      const read = START + own.elapsed();
      // The steady clock stands still while a machine is suspended.
      (own as ManualWorld).jumpClock(sleptMs);
      return read;
    });
    const { effect: held } = heldEffect();
    void engine.execute(operation, held);
    await world.advance(0);
    const view = await engine.read(operation.id);
    const record = view?.record as PendingRecord | undefined;
    expect(record?.leaseUntil).toBeGreaterThanOrEqual(START + sleptMs + LEASE);
    await engine.close();
  });

  it.each([
    ['the wall clock was set', 0],
    ['the machine slept', 3_600_000],
  ])('[E2] is read again before a claim after %s, and leases go by it', async (_, sleptMs) => {
    let slept = 0;
    const { engine, world } = setUpWith(0, async (own) => START + own.elapsed() + slept);
    await world.advance(1_000);
    slept = sleptMs;
    world.jumpClock(3_600_000);
    const { effect: held } = heldEffect();
    void engine.execute(operation, held);
    await world.advance(0);
    const view = await engine.read(operation.id);
    const record = view?.record as PendingRecord | undefined;
    expect(record?.leaseUntil).toBe(START + 1_000 + sleptMs + LEASE);
    await engine.close();
  });

  it('[E12] bounds the wait for a clock that never answers', async () => {
    const { engine, world } = setUpWith(0, () => new Promise(() => {}));
    const arriving = engine.execute(operation, effect);
    await world.advance(1_000);
    expect(await arriving).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    await engine.close();
  });

  it('[E12] serves by a clock that is slow from the start, and keeps reading it', async () => {
    let readings = 0;
    const { engine, world, events } = setUpWith(TEN_MINUTES, async (own) => {
      readings += 1;
      await sleep(own, 1_200, true);
      return START + own.elapsed();
    });
    await world.advance(1_200);
    expect((await engine.execute(operation, effect)).kind).toBe('executed');
    await world.advance(70_000);
    expect(readings).toBe(3);
    expect(events.filter(({ type }) => type === 'clock_skew')).toHaveLength(3);
    await engine.close();
  });

  it('[E12] is asked again soon when its first answer is lost', async () => {
    let readings = 0;
    const { engine, world } = setUpWith(0, async (own) => {
      readings += 1;
      if (readings === 1) await new Promise(() => {});
      return START + own.elapsed();
    });
    await world.advance(2_000);
    expect((await engine.execute(operation, effect)).kind).toBe('executed');
    await engine.close();
  });

  it('[E12] does not answer a ping, and says why, for as long as it could not be read', async () => {
    let isDown = true;
    const { engine, world, right } = setUpWith(0, async () => {
      if (isDown) throw new Error('not now');
      return right();
    });
    const failure = await engine.ping().catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    expect((failure as Error).cause).toMatchObject({ message: expect.stringMatching(/not now/) });
    isDown = false;
    await world.advance(1_000);
    await engine.ping();
    await engine.close();
  });

  it('is read by an engine whose observer throws', async () => {
    const world = manualWorld(START + TEN_MINUTES);
    let readings = 0;
    const clock = async () => {
      readings += 1;
      if (readings === 1) throw new Error('not now');
      return START + world.elapsed();
    };
    const observe = (event: EngineEvent) => {
      const isOfClock = event.type === 'clock_skew' || event.type === 'store_error';
      if (isOfClock) throw new Error('a mistake of the observer');
    };
    const store: RecordStore = { ...sharedStore(memoryStore()), clock };
    const engine = new Engine({ store, world, platform: nodePlatform(), sweep: false, observe });
    await world.advance(1_000);
    expect((await engine.execute(operation, effect)).kind).toBe('executed');
    await world.advance(30_000);
    expect(readings).toBe(3);
    await engine.close();
  });

  it('goes by its own clock where the store says that it has none', async () => {
    const { engine } = setUpWith(TEN_MINUTES, async () => null);
    expect((await engine.execute(operation, effect)).kind).toBe('executed');
    const view = await engine.read(operation.id);
    expect(view?.record?.createdAt).toBe(START + TEN_MINUTES);
    await engine.close();
  });

  it('[E6] reads it again at once when its own clock jumps, and goes on by the store', async () => {
    const { engine, world } = setUpWith(0);
    await engine.execute(operation, effect);
    world.jumpClock(TEN_MINUTES);
    const next = { ...operation, id: { ...operation.id, key: 'next' } };
    await engine.execute(next, effect);
    await world.advance(0);
    const last = { ...operation, id: { ...operation.id, key: 'last' } };
    await engine.reserve(last);
    const view = await engine.read(last.id);
    expect(view?.record).toMatchObject({ leaseUntil: START + LEASE });
    await engine.close();
  });

  it('[E11] tells how far it is ahead for as long as that lasts, and when it is over', async () => {
    const { engine, world, events } = setUpWith(TEN_MINUTES);
    const told = () => events.filter(({ type }) => type === 'clock_skew');
    await world.advance(0);
    expect(told()).toEqual([{ type: 'clock_skew', aheadMs: TEN_MINUTES }]);
    await world.advance(30_000);
    expect(told()).toHaveLength(2);
    world.jumpClock(-TEN_MINUTES);
    await world.advance(90_000);
    expect(told().slice(2)).toEqual([{ type: 'clock_skew', aheadMs: 0 }]);
    await engine.close();
  });

  it('[E11] is told nothing of clocks that agree', async () => {
    const { engine, world, events } = setUpWith(900);
    await world.advance(120_000);
    expect(events).toEqual([]);
    await engine.close();
  });
});
