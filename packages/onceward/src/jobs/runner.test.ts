import { describe, expect, it } from 'vitest';
import { Engine } from '../engine/engine.ts';
import { StoreError } from '../engine/errors.ts';
import type { RecordStore } from '../engine/record-store.ts';
import { OutcomeUnknown } from '../engine/run/attempt.ts';
import { nodePlatform } from '../runtime/node-platform.ts';
import { memoryStore } from '../stores/memory/memory-store.ts';
import { type ManualWorld, manualWorld } from '../testing/manual-world.ts';
import { sharedStore, troubledStore } from '../testing/stores/troubled-store.ts';
import { defineJob, type JobContext, type JobType, type Rerun } from './job-type.ts';
import { JobManager, type JobManagerOptions } from './managers/manager.ts';
import { submissionOf } from './submission.ts';
import { jobWindows } from './windows.ts';

function jobType(run: (context: JobContext) => Promise<unknown>, rerun: Rerun = 'safe'): JobType {
  return defineJob({
    type: 'work',
    rerun,
    parse: (payload) => payload,
    run: (_payload, context) => run(context),
  });
}

function startManager(
  world: ManualWorld,
  store: RecordStore,
  type: JobType,
  options: Partial<JobManagerOptions> = {},
) {
  const engine = new Engine({ store, world, platform: nodePlatform(), sweep: { everyMs: 1_000 } });
  const manager = new JobManager({ engine, world, types: [type], ...options });
  return { engine, manager };
}

function submission(sequence: number) {
  const key = `host:${sequence}:a1b2c3d4e5f60718`;
  return submissionOf({ tenant: 'shop', key, type: 'work', payload: null });
}

async function idOf(manager: JobManager, sequence: number): Promise<string> {
  const answer = await manager.submit(submission(sequence));
  return 'jobId' in answer ? answer.jobId : '';
}

const forever = () => new Promise<never>(() => {});

describe('a runner', () => {
  it('[J6] finds jobs that another manager took in and does not run', async () => {
    const world = manualWorld();
    const store = sharedStore(memoryStore());
    const type = jobType(async () => 'done');
    const { manager: taking } = startManager(world, store, type, { run: false });
    const jobId = await idOf(taking, 1);
    startManager(world, store, type);
    await world.advance(5_000);
    expect(await taking.find('shop', jobId)).toMatchObject({ state: 'succeeded', attempts: 1 });
  });

  it('[J6] goes on scanning for jobs after a scan that the store never answered', async () => {
    const world = manualWorld();
    const store = sharedStore(memoryStore());
    let isSilent = true;
    const troubled: RecordStore = {
      ...store,
      async *scan(query) {
        if (isSilent) await forever();
        yield* store.scan(query);
      },
    };
    const type = jobType(async () => 'done');
    const { manager: taking } = startManager(world, store, type, { run: false });
    startManager(world, troubled, type);
    const jobId = await idOf(taking, 1);
    await world.advance(5_000);
    isSilent = false;
    await world.advance(60_000);
    expect(await taking.find('shop', jobId)).toMatchObject({ state: 'succeeded' });
  });

  it('[J3] runs more jobs than it holds in memory', async () => {
    const world = manualWorld();
    let runs = 0;
    let open: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const type = jobType(async () => {
      await gate;
      runs += 1;
    });
    const { manager } = startManager(world, sharedStore(memoryStore()), type);
    for (let i = 0; i < 10_100; i += 1) await manager.submit(submission(i));
    expect(manager.load.running).toBe(64);
    expect(manager.load.ready).toBeLessThanOrEqual(10_000);
    open();
    await world.advance(6_000);
    expect(runs).toBe(10_100);
  });

  it('[J2] [E9] runs the jobs of other tenants beside a backlog that fills its memory', async () => {
    const world = manualWorld();
    const ran: string[] = [];
    const type = jobType(({ tenant }) => {
      if (tenant === 'shop') return forever();
      ran.push(tenant);
      return Promise.resolve();
    });
    const { manager } = startManager(world, memoryStore(), type, { concurrency: 4 });
    for (let i = 0; i < 10_100; i += 1) await manager.submit(submission(i));
    for (const tenant of ['a', 'b', 'c']) {
      for (let i = 0; i < 3; i += 1) await manager.submit({ ...submission(i), tenant });
    }
    await world.advance(1_000);
    expect(ran.toSorted()).toEqual(['a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c']);
    expect(manager.load.running).toBe(4);
  });

  it('[J9] holds long jobs by their id alone and reads them when their turn comes', async () => {
    const world = manualWorld();
    const results: unknown[] = [];
    const type = defineJob({
      type: 'work',
      rerun: 'never',
      parse: (payload) => String(payload),
      run: async (payload) => results.push(payload.length),
    });
    const { manager } = startManager(world, memoryStore(), type);
    const long = { ...submission(1), payload: JSON.stringify('x'.repeat(100_000)) };
    const short = { ...submission(2), payload: '"short"' };
    for (const one of [long, short]) expect(await manager.submit(one)).toHaveProperty('jobId');
    await world.advance(1_000);
    expect(results).toEqual(expect.arrayContaining([100_000, 5]));
    expect(results).toHaveLength(2);
  });

  it('[J5] takes over a run whose manager froze, under a higher fence, and the late one changes nothing', async () => {
    const world = manualWorld();
    const store = memoryStore();
    const frozen = troubledStore(sharedStore(store));
    const fences: number[] = [];
    let finish: (value: string) => void = () => {};
    const { manager: first } = startManager(
      world,
      frozen,
      jobType(({ fence }) => {
        fences.push(fence);
        return new Promise((resolve) => {
          finish = resolve;
        });
      }),
    );
    const jobId = await idOf(first, 1);
    await world.advance(1);
    frozen.trouble = 'frozen';
    await world.advance(jobWindows.pendingMs);
    const { manager: second } = startManager(
      world,
      sharedStore(store),
      jobType(async ({ fence }) => {
        fences.push(fence);
        return 'second';
      }),
    );
    await world.advance(1);
    frozen.trouble = null;
    finish('first');
    await world.advance(10_000);
    expect(fences).toHaveLength(2);
    expect(fences[1]).toBeGreaterThan(fences[0]!);
    expect(await second.find('shop', jobId)).toMatchObject({ result: 'second', attempts: 2 });
  });

  it('[J5] puts a lost run in doubt that may not be repeated, until an operator has spoken', async () => {
    const world = manualWorld();
    const store = memoryStore();
    const lost = troubledStore(sharedStore(store));
    let runs = 0;
    const type = jobType(() => {
      runs += 1;
      return forever();
    }, 'never');
    const { manager: first } = startManager(world, lost, type);
    const jobId = await idOf(first, 1);
    await world.advance(1);
    lost.trouble = 'frozen';
    const { manager, engine } = startManager(world, sharedStore(store), type);
    await world.advance(jobWindows.pendingMs + 10_000);
    expect(await manager.find('shop', jobId)).toMatchObject({ state: 'in_doubt', type: 'work' });
    expect(await manager.cancel('shop', jobId)).toBe('already_over');
    expect((await engine.count()).in_doubt).toBe(1);

    const verdict = { as: 'committed', by: 'operator', reason: 'seen at the bank' } as const;
    await engine.resolve({ scope: 'job:shop', key: jobId }, { ...verdict, keepMs: 1_000_000 });
    expect(await manager.find('shop', jobId)).toMatchObject({
      state: 'succeeded',
      error: 'resolved: seen at the bank',
    });
    expect(runs).toBe(1);
  });

  it('[J5] runs a job once that may not be repeated, though the reply to its first claim was lost', async () => {
    const world = manualWorld();
    const shared = sharedStore(memoryStore());
    let isLost = false;
    let isDeaf = false;
    const lost = () => new StoreError('ONCE_STORE_UNAVAILABLE', 'the connection is closed');
    const store: RecordStore = {
      ...shared,
      async swap(id, expected, next) {
        const result = await shared.swap(id, expected, next);
        if (isLost || expected === null || !id.scope.startsWith('job:')) return result;
        isLost = true;
        isDeaf = true;
        throw lost();
      },
      read: (id) => (isDeaf ? Promise.reject(lost()) : shared.read(id)),
    };
    let runs = 0;
    const type = jobType(async () => (runs += 1), 'never');
    const { manager } = startManager(world, store, type);
    const jobId = await idOf(manager, 1);
    await world.advance(10);
    expect(isLost).toBe(true);
    expect(runs).toBe(0);
    isDeaf = false;
    await world.advance(20_000);
    expect(runs).toBe(1);
    expect(await manager.find('shop', jobId)).toMatchObject({ state: 'succeeded', attempts: 2 });
  });

  it('[J5] puts a job in doubt whose handler does not know how it ended', async () => {
    const world = manualWorld();
    const type = jobType(async () => {
      throw new OutcomeUnknown('the line went dead');
    });
    const { manager } = startManager(world, sharedStore(memoryStore()), type);
    const jobId = await idOf(manager, 1);
    await world.advance(60_000);
    expect(await manager.find('shop', jobId)).toMatchObject({ state: 'in_doubt', attempts: 1 });
  });

  it('[J8] gives up a job that takes its process down every time', async () => {
    const world = manualWorld();
    const store = memoryStore();
    let runs = 0;
    const type = jobType(() => {
      runs += 1;
      return forever();
    });
    let jobId = '';
    for (let life = 0; life < 23; life += 1) {
      const mortal = troubledStore(sharedStore(store));
      const { manager } = startManager(world, mortal, type);
      if (life === 0) jobId = await idOf(manager, 1);
      await world.advance(5_000);
      mortal.trouble = 'frozen';
      await world.advance(jobWindows.pendingMs);
    }
    const { manager } = startManager(world, sharedStore(store), type);
    const job = await manager.find('shop', jobId);
    expect(runs).toBe(20);
    expect(job).toMatchObject({ state: 'failed', attempts: 20 });
    expect(job?.error).toContain('given up');
  });

  it('[J8] waits for the jobs that run when it is closed, and begins no more', async () => {
    const world = manualWorld();
    const ended: string[] = [];
    const type = jobType(async ({ jobId }) => {
      await new Promise<void>((resolve) => {
        world.startTimer(1_000, resolve);
      });
      ended.push(jobId);
    });
    const { manager } = startManager(world, sharedStore(memoryStore()), type, { concurrency: 1 });
    const running = await idOf(manager, 1);
    const waiting = await idOf(manager, 2);
    const closed = manager.close(10_000);
    await world.advance(1_500);
    await closed;
    await world.advance(60_000);
    expect(ended).toEqual([running]);
    expect(await manager.find('shop', waiting)).toMatchObject({ state: 'queued' });
  });
});
