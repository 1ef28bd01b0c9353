import { describe, expect, it } from 'vitest';
import { MIB } from '../engine/units.ts';
import { type ManualWorld, manualWorld } from '../testing/manual-world.ts';
import { Gate } from './gate.ts';
import type { JobsPort } from './jobs-port.ts';
import { type Answer, refused, type Submission, submissionOf } from './submission.ts';
import { checkGateWindows, type JobWindows, jobWindows } from './windows.ts';

function submission(sequence = 1, payload: unknown = {}, tenant = 'shop') {
  const key = `host:${sequence}:a1b2c3d4e5f60718`;
  return submissionOf({ tenant, key, type: 'echo', payload });
}

/** What a gate may ask; the test says when and what it is answered. */
class Recorder implements JobsPort {
  readonly asked: Submission[] = [];
  answer: (submission: Submission) => Promise<Answer> = async ({ key }) =>
    committed(`job of ${key}`);

  submit(asked: Submission): Promise<Answer> {
    this.asked.push(asked);
    return this.answer(asked);
  }
  find = async () => null;
  list = async () => ({ jobs: [], complete: true });
  cancel = async () => 'unknown' as const;
}

function committed(jobId: string, keepMs = 300_000): Answer {
  return { status: 'committed', jobId, wasDuplicate: false, keepMs };
}

function setUp(windows: Partial<JobWindows> = {}): {
  world: ManualWorld;
  manager: Recorder;
  gate: Gate;
} {
  const world = manualWorld();
  const manager = new Recorder();
  return {
    world,
    manager,
    gate: new Gate({ manager, world, windows: { ...jobWindows, ...windows } }),
  };
}

describe('a gate', () => {
  it('[J2] answers what is settled itself and asks its manager once', async () => {
    const { gate, manager } = setUp();
    expect(await gate.submit(submission())).toMatchObject({
      status: 'committed',
      wasDuplicate: false,
    });
    for (let i = 0; i < 10; i += 1) {
      expect(await gate.submit(submission())).toMatchObject({
        jobId: 'job of host:1:a1b2c3d4e5f60718',
        wasDuplicate: true,
      });
    }
    expect(manager.asked).toHaveLength(1);
  });

  it('[J2] answers a rejection again, for as long as rejections are kept', async () => {
    const { gate, manager, world } = setUp();
    manager.answer = async () => ({
      status: 'rejected',
      reason: 'no room',
      wasDuplicate: false,
      keepMs: 60_000,
    });
    await gate.submit(submission());
    await world.advance(59_999);
    expect(await gate.submit(submission())).toMatchObject({
      reason: 'no room',
      wasDuplicate: true,
    });
    await world.advance(1);
    await gate.submit(submission());
    expect(manager.asked).toHaveLength(2);
  });

  it('[J2] sends one of 1,000 simultaneous retries on and gives all the same answer', async () => {
    const { gate, manager, world } = setUp();
    let answer: (answer: Answer) => void = () => {};
    manager.answer = () => new Promise((resolve) => (answer = resolve));
    const all = Array.from({ length: 1_000 }, () => gate.submit(submission()));
    await world.advance(1_000);
    expect(gate.size.pending).toBe(1);
    answer(committed('the one'));
    const answers = await Promise.all(all);
    expect(manager.asked).toHaveLength(1);
    expect(answers.every((one) => 'jobId' in one && one.jobId === 'the one')).toBe(true);
    expect(answers.filter((one) => 'wasDuplicate' in one && !one.wasDuplicate)).toHaveLength(1);
    expect(gate.size.pending).toBe(0);
  });

  it('[J2] answers duplicates that waited 30 s that the first is still pending', async () => {
    const { gate, manager, world } = setUp();
    manager.answer = () => new Promise(() => {});
    void gate.submit(submission());
    const second = gate.submit(submission());
    await world.advance(29_999);
    const third = gate.submit(submission());
    await world.advance(1);
    expect(await second).toMatchObject({ status: 'refused', why: 'in_progress' });
    expect(await Promise.race([third, Promise.resolve('waiting')])).toBe('waiting');
    expect(manager.asked).toHaveLength(1);
  });

  it('[J5] refuses duplicates of a pending submission at once where waiting is switched off', async () => {
    const { gate, manager } = setUp({ waitMs: 0 });
    manager.answer = () => new Promise(() => {});
    void gate.submit(submission());
    expect(await gate.submit(submission())).toMatchObject({ why: 'in_progress' });
  });

  it('[J2] asks again after a refusal: only what is settled is remembered', async () => {
    const { gate, manager } = setUp();
    manager.answer = async () => refused('in_doubt');
    expect(await gate.submit(submission())).toMatchObject({ why: 'in_doubt' });
    manager.answer = async () => committed('a');
    expect(await gate.submit(submission())).toMatchObject({ jobId: 'a' });
  });

  it('[J2] says unavailable when its manager cannot be asked, to all who waited', async () => {
    const manager = new Recorder();
    const faults: unknown[] = [];
    const onFault = (error: unknown) => faults.push(error);
    const gate = new Gate({ manager, world: manualWorld(), onFault });
    const refusal = new Error('connection refused');
    manager.answer = async () => Promise.reject(refusal);
    const answers = await Promise.all([1, 2, 3].map(() => gate.submit(submission())));
    for (const answer of answers) expect(answer).toMatchObject({ why: 'unavailable' });
    expect(manager.asked).toHaveLength(1);
    expect(faults).toEqual([refusal]);
  });

  it('[J2] refuses another job under a key that it knows', async () => {
    const { gate, manager } = setUp();
    await gate.submit(submission(1, { n: 1 }));
    expect(await gate.submit(submission(1, { n: 2 }))).toEqual(refused('mismatch'));
    expect(manager.asked).toHaveLength(1);
  });

  it('[J2] leaves it to the manager which of two jobs with one key came first', async () => {
    const { gate, manager } = setUp();
    manager.answer = async ({ payload }) =>
      payload === '{"n":1}' ? refused('mismatch') : committed('second');
    const [first, second] = await Promise.all([
      gate.submit(submission(1, { n: 1 })),
      gate.submit(submission(1, { n: 2 })),
    ]);
    expect(first).toEqual(refused('mismatch'));
    expect(second).toMatchObject({ jobId: 'second', wasDuplicate: false });
  });

  it('[J2] keeps tenants apart that use the same key', async () => {
    const { gate, manager } = setUp();
    await gate.submit(submission(1, {}, 'shop'));
    expect(await gate.submit(submission(1, {}, 'other'))).toMatchObject({ wasDuplicate: false });
    expect(manager.asked).toHaveLength(2);
  });

  it('[J5] remembers no longer than its manager will', async () => {
    const { gate, manager, world } = setUp();
    manager.answer = async () => committed('old', 10_000);
    await gate.submit(submission());
    await world.advance(10_000);
    await gate.submit(submission());
    expect(manager.asked).toHaveLength(2);
  });

  it('[J5] goes by its steady clock: the wall clock may jump', async () => {
    const { gate, manager, world } = setUp();
    await gate.submit(submission());
    for (const jump of [86_400_000, -172_800_000]) {
      world.jumpClock(jump);
      expect(await gate.submit(submission())).toMatchObject({ wasDuplicate: true });
    }
    expect(manager.asked).toHaveLength(1);
    await world.advance(300_000);
    await gate.submit(submission());
    expect(manager.asked).toHaveLength(2);
  });

  it('[J2] is not held up by a manager that throws at once', async () => {
    const { gate, manager } = setUp();
    manager.answer = () => {
      throw new Error('no manager');
    };
    expect(await gate.submit(submission())).toMatchObject({ why: 'unavailable' });
    expect(gate.size.pending).toBe(0);
    expect(await gate.submit(submission())).toMatchObject({ why: 'unavailable' });
    expect(manager.asked).toHaveLength(2);
  });

  it('[J5] drops what has expired every ten seconds', async () => {
    const { gate, world } = setUp({ committedMs: 5_000 });
    for (let i = 0; i < 100; i += 1) await gate.submit(submission(i));
    expect(gate.size.answered).toBe(100);
    await world.advance(10_000);
    expect(gate.size.answered).toBe(0);
  });

  it('[J9] evicts answers when it is full, never what is pending, and then says over quota', async () => {
    const { gate, manager } = setUp({ maxEntries: 100 });
    for (let i = 0; i < 1_000; i += 1) await gate.submit(submission(i));
    expect(gate.size.answered).toBeLessThanOrEqual(100);
    expect(gate.size.evictions).toBeGreaterThanOrEqual(900);

    const answers: ((answer: Answer) => void)[] = [];
    manager.answer = () => new Promise((resolve) => answers.push(resolve));
    const pending = Array.from({ length: 100 }, (_, i) => gate.submit(submission(5_000 + i)));
    expect(await gate.submit(submission(6_000))).toMatchObject({ why: 'over_quota' });
    const follower = gate.submit(submission(5_000));
    for (const [i, answer] of answers.entries()) answer(committed(`job ${i}`));
    expect(await Promise.all(pending)).toHaveLength(100);
    expect(await follower).toMatchObject({ jobId: 'job 0', wasDuplicate: true });
    expect(await Promise.race([gate.submit(submission(6_000)), Promise.resolve('taken in')])).toBe(
      'taken in',
    );
  });

  it('[J9] says over quota when the payloads that are pending would fill its memory', async () => {
    const { gate, manager } = setUp();
    const long = { ...submission(1), payload: 'x'.repeat(200 * MIB) };
    let answer: (answer: Answer) => void = () => {};
    manager.answer = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    const first = gate.submit(long);
    const second = { ...long, key: submission(2).key };
    expect(await gate.submit(second)).toMatchObject({ why: 'over_quota', retryAfterMs: 1_000 });
    answer(committed('job'));
    expect(await first).toMatchObject({ jobId: 'job' });
    const retried = gate.submit(second);
    answer(committed('another job'));
    expect(await retried).toMatchObject({ jobId: 'another job' });
  });
});

describe('windows', () => {
  it('[J5] are a minute, five minutes and a minute by default', () => {
    expect(jobWindows).toEqual({
      pendingMs: 60_000,
      committedMs: 300_000,
      rejectedMs: 60_000,
      maxEntries: 100_000,
      cleanupMs: 10_000,
      waitMs: 30_000,
    });
  });

  it.each(['committedMs', 'rejectedMs', 'pendingMs'] as const)(
    '[J5] of a manager may not be shorter than those of its gate: %s',
    (field) => {
      const longer = { ...jobWindows, [field]: jobWindows[field] + 1_000 };
      expect(() => checkGateWindows(longer, jobWindows)).toThrow(/IDEMPOTENCY_\w+_TTL_SECONDS/);
      expect(() => checkGateWindows(jobWindows, longer)).not.toThrow();
    },
  );
});
