import { describe, expect, it } from 'vitest';
import { Engine } from '../../engine/engine.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { DAY } from '../../engine/units.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import { type ManualWorld, manualWorld } from '../../testing/manual-world.ts';
import { sharedStore } from '../../testing/stores/troubled-store.ts';
import { defineJob, JobFailed, type JobType } from '../job-type.ts';
import { submissionOf } from '../submission.ts';
import { jobWindows } from '../windows.ts';
import { JobManager, type JobManagerOptions } from './manager.ts';

const KEY = 'host1.dc1:12345:42:a1b2c3d4e5f60718';

function submission(payload: unknown = { n: 1 }, key = KEY, type = 'echo', tenant = 'shop') {
  return submissionOf({ tenant, key, type, payload });
}

const echo = defineJob({
  type: 'echo',
  rerun: 'safe',
  parse: (payload) => payload,
  run: async (payload) => payload,
});

interface Setup {
  readonly world: ManualWorld;
  readonly engine: Engine;
  readonly manager: JobManager;
}

function setUpShared(
  types: readonly JobType[] = [echo],
  options: Partial<JobManagerOptions> = {},
  store: RecordStore = sharedStore(memoryStore()),
  world = manualWorld(),
): Setup {
  const engine = new Engine({ store, world, platform: nodePlatform() });
  const manager = new JobManager({ engine, world, types, ...options });
  return { world, engine, manager };
}

/** Stores that can write several records at once take a submission in with one write, others step by step. */
const STORES = [
  ['a shared store', () => sharedStore(memoryStore())],
  ['a store that writes several records at once', () => memoryStore()],
] as const;

it.each([-600_000, 600_000])(
  '[J5] a manager whose clock is %i ms off keeps a submission as long as the others do',
  async (offMs) => {
    const world = manualWorld(Date.UTC(2030, 0, 1) + offMs);
    const clock = async () => Date.UTC(2030, 0, 1) + world.elapsed();
    const { manager } = setUpShared([echo], {}, { ...sharedStore(memoryStore()), clock }, world);
    const kept = { status: 'committed', keepMs: 300_000 };
    expect(await manager.submit(submission())).toMatchObject(kept);
    expect(await manager.submit(submission())).toMatchObject(kept);
  },
);

describe.each(STORES)('a submission on %s', (_name, openStore) => {
  const setUp: typeof setUpShared = (types, options, store = openStore(), world = undefined) =>
    setUpShared(types, options, store, world);

  it('[J3] [J4] is committed once and answered with the same job afterwards', async () => {
    const { manager } = setUp();
    const first = await manager.submit(submission());
    expect(first).toMatchObject({ status: 'committed', wasDuplicate: false, keepMs: 300_000 });
    const again = await manager.submit(submission());
    expect(again).toMatchObject({ ...first, wasDuplicate: true });
  });

  it('[J3] runs once, whatever the number of simultaneous retries', async () => {
    let runs = 0;
    const counted = defineJob({
      type: 'echo',
      rerun: 'safe',
      parse: (payload) => payload,
      run: async () => (runs += 1),
    });
    const { manager, world } = setUp([counted]);
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, () => manager.submit(submission())),
    );
    await world.advance(10);
    expect(new Set(answers.map((answer) => 'jobId' in answer && answer.jobId)).size).toBe(1);
    expect(
      answers.filter((answer) => 'wasDuplicate' in answer && !answer.wasDuplicate),
    ).toHaveLength(1);
    expect(runs).toBe(1);
  });

  it('[J1] is known by its key however the nonce is spelled', async () => {
    const { manager } = setUp();
    const first = await manager.submit(submission());
    const again = await manager.submit(submission({ n: 1 }, KEY.replace('a1b2', 'A1B2')));
    expect(again).toMatchObject({ jobId: 'jobId' in first && first.jobId, wasDuplicate: true });
  });

  it.each([
    '',
    'no-colons',
    'a:1',
    'host:-1:a1b2c3d4e5f60718',
    'host:01:a1b2c3d4e5f60718',
    'host:1:xyz',
  ])('[J1] is refused when its key is %j', (key) => {
    expect(() => submission({}, key)).toThrow(
      expect.objectContaining({ code: 'ONCE_INVALID_INPUT' }),
    );
  });

  it('[J3] is refused when its key was used for another job', async () => {
    const { manager } = setUp();
    await manager.submit(submission());
    expect(await manager.submit(submission({ n: 2 }))).toEqual({
      status: 'refused',
      why: 'mismatch',
    });
  });

  it('[J3] of an unknown type or a bad payload is rejected, and the rejection is kept for its window', async () => {
    const picky = defineJob({
      type: 'picky',
      rerun: 'safe',
      parse(payload) {
        if (payload !== 1) throw new Error('payload must be 1');
        return payload;
      },
      run: async () => null,
    });
    const { manager, world } = setUp([picky]);
    const unknown = await manager.submit(submission({}, KEY, 'nothing'));
    expect(unknown).toMatchObject({ status: 'rejected', wasDuplicate: false });
    const other = KEY.replace(':42:', ':43:');
    const bad = await manager.submit(submission(2, other, 'picky'));
    expect(bad).toMatchObject({ reason: 'payload must be 1', keepMs: 60_000, wasDuplicate: false });
    await world.advance(59_000);
    expect(await manager.submit(submission(2, other, 'picky'))).toMatchObject({
      wasDuplicate: true,
    });
    await world.advance(2_000);
    expect(await manager.submit(submission(2, other, 'picky'))).toMatchObject({
      wasDuplicate: false,
    });
  });

  it('[J5] is forgotten when its window has passed: the key then names a new job', async () => {
    const { manager, world } = setUp();
    const first = await manager.submit(submission());
    await world.advance(299_000);
    expect(await manager.submit(submission())).toMatchObject({ wasDuplicate: true, keepMs: 1_000 });
    await world.advance(2_000);
    const later = await manager.submit(submission());
    expect(later).toMatchObject({ wasDuplicate: false });
    expect(later).not.toMatchObject({ jobId: 'jobId' in first && first.jobId });
  });

  it.each([DAY, -DAY])('[J5] keeps its answer though the wall clock jumps by %i ms', async (ms) => {
    const { manager, world } = setUp();
    const first = await manager.submit(submission());
    world.jumpClock(ms);
    await world.advance(200_000);
    expect(await manager.submit(submission())).toMatchObject({
      jobId: 'jobId' in first ? first.jobId : '',
      wasDuplicate: true,
    });
  });

  it('[J5] that was taken in while the wall clock was a day behind is kept when it is set right', async () => {
    const { manager, world } = setUp();
    world.jumpClock(-DAY);
    const first = await manager.submit(submission());
    world.jumpClock(DAY);
    await world.advance(200_000);
    const again = await manager.submit(submission());
    expect(again).toMatchObject({ wasDuplicate: true });
    expect('jobId' in again && 'jobId' in first && again.jobId === first.jobId).toBe(true);
  });

  it('[J3] does not collide with another tenant that uses the same key', async () => {
    const { manager } = setUp();
    const ours = await manager.submit(submission());
    const theirs = await manager.submit(submission({ n: 1 }, KEY, 'echo', 'other'));
    expect(theirs).toMatchObject({ wasDuplicate: false });
    const jobId = 'jobId' in ours ? ours.jobId : '';
    expect(await manager.find('shop', jobId)).not.toBeNull();
    expect(await manager.find('other', jobId)).toBeNull();
    expect(await manager.cancel('other', jobId)).toBe('unknown');
  });

  it('[J3] is reserved, committed and rejected step by step by those who bring their own queue', async () => {
    const { manager, world } = setUp();
    const reserved = await manager.checkOrReserve(submission());
    if (reserved.status !== 'reserved')
      throw new Error(`expected a reservation: ${reserved.status}`);
    const waiting = manager.checkOrReserve(submission());
    await world.advance(1_000);
    expect(await manager.commit(submission(), reserved.fence, reserved.jobId)).toBe(true);
    await world.advance(2_000);
    expect(await waiting).toMatchObject({ status: 'committed', jobId: reserved.jobId });
    expect(await manager.reject(submission(), reserved.fence, 'too late')).toBe(false);

    const other = submission({}, KEY.replace(':42:', ':43:'));
    const second = await manager.checkOrReserve(other);
    if (second.status !== 'reserved') throw new Error(`expected a reservation: ${second.status}`);
    expect(await manager.reject(other, second.fence, 'no room')).toBe(true);
    expect(await manager.checkOrReserve(other)).toMatchObject({
      status: 'rejected',
      reason: 'no room',
    });
  });

  it('[J5] that stays pending beyond its time is taken over with the id it was given, and the late one loses', async () => {
    const { manager, world } = setUp();
    const first = await manager.checkOrReserve(submission());
    if (first.status !== 'reserved') throw new Error(`expected a reservation: ${first.status}`);
    await world.advance(jobWindows.pendingMs + 1);
    const second = await manager.checkOrReserve(submission());
    expect(second).toMatchObject({ status: 'reserved', jobId: first.jobId });
    expect(await manager.commit(submission(), first.fence, first.jobId)).toBe(false);
  });

  it('[J2] that waits too long is answered that the first is still pending', async () => {
    const { manager, world } = setUp();
    await manager.checkOrReserve(submission());
    const waiting = manager.submit(submission());
    await world.advance(30_001);
    expect(await waiting).toMatchObject({ status: 'refused', why: 'in_progress' });
  });
});

describe('a job', () => {
  async function runOne(type: JobType, payload: unknown = {}, options = {}) {
    const setup = setUpShared([type], options);
    const answer = await setup.manager.submit(submission(payload, KEY, type.type));
    const jobId = 'jobId' in answer ? answer.jobId : '';
    const read = () => setup.manager.find('shop', jobId);
    return { ...setup, jobId, read };
  }

  it('[J8] runs and shows what it returned', async () => {
    const { read, world } = await runOne(echo, { deep: [1, 2] });
    await world.advance(1);
    expect(await read()).toMatchObject({
      type: 'echo',
      state: 'succeeded',
      attempts: 1,
      result: { deep: [1, 2] },
    });
  });

  it('[J8] that throws is run again after a pause, as often as its type allows', async () => {
    const seen: number[] = [];
    const fences: number[] = [];
    const shaky = defineJob({
      type: 'shaky',
      rerun: 'safe',
      attempts: 3,
      parse: (payload) => payload,
      async run(_payload, { attempt, fence }) {
        seen.push(attempt);
        fences.push(fence);
        throw new Error(`no luck ${attempt}`);
      },
    });
    const { read, world } = await runOne(shaky);
    await world.advance(500);
    expect(await read()).toMatchObject({ state: 'queued', attempts: 1 });
    await world.advance(5_000);
    expect(seen).toEqual([1, 2, 3]);
    expect([...fences].sort((a, b) => a - b)).toEqual(fences);
    expect(await read()).toMatchObject({ state: 'failed', attempts: 3, error: 'no luck 3' });
  });

  it('[J8] that may not re-run is run once, though it throws', async () => {
    let runs = 0;
    const once = defineJob({
      type: 'once',
      rerun: 'never',
      attempts: 5,
      parse: (payload) => payload,
      async run() {
        runs += 1;
        throw new Error('broken');
      },
    });
    const { read, world } = await runOne(once);
    await world.advance(60_000);
    expect(runs).toBe(1);
    expect(await read()).toMatchObject({ state: 'failed', attempts: 1, error: 'broken' });
  });

  it('[J8] is not tried again when it says that this would not help', async () => {
    let runs = 0;
    const hopeless = defineJob({
      type: 'hopeless',
      rerun: 'safe',
      parse: (payload) => payload,
      async run() {
        runs += 1;
        throw new JobFailed('no such address');
      },
    });
    const { read, world } = await runOne(hopeless);
    await world.advance(60_000);
    expect(runs).toBe(1);
    expect(await read()).toMatchObject({ state: 'failed', error: 'no such address' });
  });

  it('[J8] is given the same derived key in every run, and none that another job has', async () => {
    const keys = new Map<string, Set<string>>();
    const shaky = defineJob({
      type: 'shaky',
      rerun: 'safe',
      parse: (payload) => payload,
      async run(_payload, { jobId, derivedKey }) {
        keys.set(jobId, (keys.get(jobId) ?? new Set()).add(derivedKey));
        throw new Error('again');
      },
    });
    const { manager, world } = setUpShared([shaky]);
    await manager.submit(submission({}, KEY, 'shaky'));
    await manager.submit(submission({}, KEY.replace(':42:', ':43:'), 'shaky'));
    await world.advance(60_000);
    const [first, second] = [...keys.values()];
    expect(first?.size).toBe(1);
    expect(second?.size).toBe(1);
    expect(first).not.toEqual(second);
  });

  it('[J8] whose result is too long to keep has succeeded all the same', async () => {
    const long = defineJob({
      type: 'long',
      rerun: 'safe',
      parse: (payload) => payload,
      run: async () => 'x'.repeat(2_000_000),
    });
    const { read, world } = await runOne(long);
    await world.advance(1);
    expect(await read()).toMatchObject({ state: 'succeeded', result: null });
  });

  it('is cancelled while it waits, and then never runs', async () => {
    let runs = 0;
    const counted = defineJob({
      type: 'counted',
      rerun: 'safe',
      parse: (payload) => payload,
      run: async () => (runs += 1),
    });
    const { read, manager, jobId, world } = await runOne(counted, {}, { run: false });
    expect(await read()).toMatchObject({ state: 'queued', attempts: 0 });
    expect(await manager.cancel('shop', jobId)).toBe('cancelled');
    expect(await manager.cancel('shop', jobId)).toBe('already_over');
    expect(await read()).toMatchObject({ state: 'cancelled', attempts: 0, type: 'counted' });
    await world.advance(60_000);
    expect(runs).toBe(0);
  });

  it('is aborted when it is cancelled while it runs', async () => {
    const patient = defineJob({
      type: 'patient',
      rerun: 'safe',
      parse: (payload) => payload,
      run: (_payload, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
        }),
    });
    const { read, manager, jobId, world } = await runOne(patient);
    await world.advance(1);
    expect(await read()).toMatchObject({ state: 'running', attempts: 1 });
    expect(await manager.cancel('shop', jobId)).toBe('stopping');
    await world.advance(1);
    expect(await read()).toMatchObject({ state: 'cancelled', attempts: 1 });
  });

  it('is listed by state, newest first', async () => {
    const { manager, world } = setUpShared([echo], { run: false });
    for (const n of [1, 2, 3]) {
      await manager.submit(submission({ n }, KEY.replace(':42:', `:${n}:`)));
      await world.advance(10);
    }
    const { jobs, complete } = await manager.list({ tenant: 'shop', state: 'queued', limit: 2 });
    expect(jobs).toHaveLength(2);
    expect(complete).toBe(false);
    expect(jobs[0]!.submittedAt).toBeGreaterThan(jobs[1]!.submittedAt);
    expect((await manager.list({ tenant: 'shop', state: 'failed', limit: 2 })).jobs).toEqual([]);
    expect((await manager.list({ tenant: 'other', limit: 2 })).jobs).toEqual([]);
  });
});
