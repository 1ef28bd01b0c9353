import { describe, expect, it } from 'vitest';
import { Engine } from '../../engine/engine.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import type { World } from '../../engine/world.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import { type ManualWorld, manualWorld } from '../../testing/manual-world.ts';
import { defineJob, type Rerun } from '../job-type.ts';
import { type Answer, submissionOf } from '../submission.ts';
import { JobManager } from './manager.ts';

/** A process that dies at its n-th write: just before the store does it, or just after, before its answer. */
interface Death {
  readonly atWrite: number;
  readonly when: 'before' | 'after';
}

interface Kind {
  readonly name: string;
  readonly isEmbedded: boolean;
  readonly writesTogether: boolean;
  /** How many writes a job takes, and which of them claims its run. */
  readonly writes: number;
  readonly claim: number;
}

/** Reserve and place; then the run's claim and the commit of the submission, in this order; then settle. */
const ONE_BY_ONE = { writesTogether: false, writes: 5, claim: 3 } as const;
/** The submission's answer and the job; the run's claim; settle. */
const TOGETHER = { writesTogether: true, writes: 3, claim: 2 } as const;
const KINDS: readonly Kind[] = [
  { name: 'shared', isEmbedded: false, ...ONE_BY_ONE },
  { name: 'embedded', isEmbedded: true, ...ONE_BY_ONE },
  { name: 'embedded and writes several records at once', isEmbedded: true, ...TOGETHER },
];

class Life {
  writes = 0;
  dead = false;
  readonly manager: JobManager;
  readonly engine: Engine;

  constructor(
    world: ManualWorld,
    disk: RecordStore,
    kind: Kind,
    firstRevisionOfLife: number | null,
    rerun: Rerun,
    runs: number[],
    death: Death | null,
  ) {
    const traits = { ...disk.traits, firstRevisionOfLife };
    const store = { ...this.#mortal(disk, kind, death), traits };
    const mortalWorld = this.#mortalWorld(world);
    this.engine = new Engine({ store, world: mortalWorld, platform: nodePlatform() });
    const counted = defineJob({
      type: 'counted',
      rerun,
      parse: (payload) => payload,
      async run(_payload, { attempt }) {
        runs.push(attempt);
        return attempt;
      },
    });
    this.manager = new JobManager({ engine: this.engine, world: mortalWorld, types: [counted] });
  }

  #mortal(disk: RecordStore, kind: Kind, death: Death | null): RecordStore {
    const never = () => new Promise<never>(() => {});
    const write = async <T>(call: () => Promise<T>): Promise<T> => {
      if (this.dead) return never();
      this.writes += 1;
      const isLast = death !== null && this.writes === death.atWrite;
      if (isLast) this.dead = true;
      if (isLast && death.when === 'before') return never();
      const result = await call();
      return isLast ? never() : result;
    };
    return {
      ...disk,
      traits: disk.traits,
      read: (id) => (this.dead ? never() : disk.read(id)),
      swap: (id, expected, next) => write(() => disk.swap(id, expected, next)),
      ...(kind.writesTogether
        ? { insertAll: (records) => write(async () => (await disk.insertAll?.(records)) ?? null) }
        : {}),
      scan: (query) => disk.scan(query),
      count: () => disk.count(),
      close: () => disk.close(),
    };
  }

  /** The clock goes on for everyone; the timers of the dead do not. */
  #mortalWorld(world: ManualWorld): World {
    return {
      ...world,
      startTimer: (ms, callback) =>
        world.startTimer(ms, () => {
          if (!this.dead) callback();
        }),
    };
  }
}

const submission = submissionOf({
  tenant: 'shop',
  key: 'host1.dc1:12345:42:a1b2c3d4e5f60718',
  type: 'counted',
  payload: { n: 1 },
});

async function firstLife(
  world: ManualWorld,
  disk: RecordStore,
  kind: Kind,
  rerun: Rerun,
  runs: number[],
  death: Death,
) {
  const life = new Life(world, disk, kind, null, rerun, runs, death);
  let acknowledged: Answer | null = null;
  void life.manager.submit(submission).then((answer) => {
    acknowledged = answer;
  });
  await world.advance(5);
  expect(life.dead).toBe(true);
  return acknowledged as Answer | null;
}

describe.each(KINDS)('on a store that is $name', (kind) => {
  const deaths: Death[] = Array.from({ length: kind.writes }, (_, i) => i + 1).flatMap(
    (atWrite) => [
      { atWrite, when: 'before' as const },
      { atWrite, when: 'after' as const },
    ],
  );

  /** After the death: what the client learns by retrying, and what becomes of the job. */
  async function survive(rerun: Rerun, death: Death) {
    const world = manualWorld();
    const disk = memoryStore();
    const runs: number[] = [];
    const acknowledged = await firstLife(world, disk, kind, rerun, runs, death);
    const runsBefore = runs.length;
    const revisions: number[] = [0];
    for await (const { revision } of disk.scan({ limit: 100 })) revisions.push(revision);
    const bornAt = kind.isEmbedded ? Math.max(...revisions) + 1 : null;
    const second = new Life(world, disk, kind, bornAt, rerun, runs, null);
    const retries: Promise<Answer>[] = [];
    for (let i = 0; i < 4; i += 1) {
      retries.push(second.manager.submit(submission));
      await world.advance(25_000);
    }
    const answers = [
      ...(acknowledged === null ? [] : [acknowledged]),
      ...(await Promise.all(retries)),
    ];
    const { jobs } = await second.manager.list({ tenant: 'shop', limit: 10 });
    return { answers, jobs, runs, runsBefore };
  }

  it.each(deaths)(
    '[J3] one job comes of a submission whose process dies $when write $atWrite',
    async (death) => {
      const { answers, jobs, runs } = await survive('safe', death);
      const ids = new Set(answers.flatMap((answer) => ('jobId' in answer ? [answer.jobId] : [])));
      expect(ids.size).toBe(1);
      expect(answers.at(-1)).toMatchObject({ status: 'committed', wasDuplicate: true });
      expect(jobs).toMatchObject([{ jobId: [...ids][0], state: 'succeeded' }]);
      expect(runs.length).toBeGreaterThanOrEqual(1);
      expect(runs.length).toBeLessThanOrEqual(2);
    },
  );

  it.each(deaths)(
    '[J5] a job that may not re-run is started once at most, and never lost, when its process dies $when write $atWrite',
    async (death) => {
      const { answers, jobs, runs, runsBefore } = await survive('never', death);
      expect(runs.length).toBeLessThanOrEqual(1);
      expect(answers.at(-1)).toMatchObject({ status: 'committed' });
      expect(jobs).toHaveLength(1);
      // Whether a run that was claimed and not settled has happened is unknown; all else has run.
      const isClaimed =
        death.atWrite > kind.claim || (death.atWrite === kind.claim && death.when === 'after');
      const isSettled = death.atWrite === kind.writes && death.when === 'after';
      const isDoubtful = isClaimed && !isSettled;
      expect(jobs[0]?.state).toBe(isDoubtful ? 'in_doubt' : 'succeeded');
      if (isDoubtful) expect(runs.length).toBe(runsBefore);
    },
  );
});
