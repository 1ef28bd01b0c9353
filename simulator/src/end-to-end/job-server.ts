import { Engine, nodePlatform } from 'onceward';
import { type ProblemName, problemAnswer } from 'onceward/http';
import {
  type Answer,
  defineJob,
  Gate,
  JobManager,
  type JobType,
  jobWindows,
  type RefusedWhy,
  submissionOf,
} from 'onceward/jobs';
import { parseJobKey } from 'onceward/keys';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import type { Judge } from './judge.ts';
import type { Life } from './life.ts';
import type { Caller, Reply, WireAnswer, WireRequest } from './network.ts';
import type { EndToEndPlan } from './plan.ts';
import type { SharedStore } from './shared-store.ts';
import type { Command } from './upstream.ts';

export interface JobSurroundings {
  readonly plan: EndToEndPlan;
  readonly store: SharedStore;
  readonly time: VirtualTime;
  readonly dice: Dice;
  readonly charges: Charges;
}

interface Charge extends Command {
  /** Of the submission. */
  readonly key: string;
}

/** What jobs call: it knows the keys that it was called with, as a payment provider does. */
export class Charges {
  readonly #judge: Judge;
  readonly #time: VirtualTime;
  readonly #known = new Set<string>();
  /** How often a call fails before anything was done. */
  failing = 0;

  constructor(judge: Judge, time: VirtualTime) {
    this.#judge = judge;
    this.#time = time;
  }

  charge({ key, ...command }: Charge, derivedKey: string): void {
    if (this.#known.has(derivedKey)) return;
    this.#known.add(derivedKey);
    this.#judge.effect({ ...command, by: command.user, key, at: this.#time.now });
  }
}

const TENANT = 'shop';
const RESCAN_MS = 20_000;

/** One life of the server for jobs: the real gate before the real manager. */
export class JobServer {
  readonly #life: Life;
  readonly #gate: Gate;
  readonly #open = new Set<Reply>();

  constructor(life: Life, around: JobSurroundings) {
    const { plan, store } = around;
    const { world } = life;
    this.#life = life;
    const engine = new Engine({
      store: store.openFor(life),
      world,
      platform: nodePlatform(),
      sweep: { everyMs: RESCAN_MS },
    });
    const windows = {
      ...jobWindows,
      pendingMs: plan.leaseMs,
      committedMs: plan.keepMs,
      waitMs: 3_000,
    };
    const manager = new JobManager({
      engine,
      world,
      types: [chargeJob(life, around)],
      windows,
      rescanMs: RESCAN_MS,
    });
    this.#gate = new Gate({ manager, world, windows: { ...windows, cleanupMs: RESCAN_MS } });
    life.whenOver(() => {
      for (const reply of this.#open) reply(null);
    });
  }

  receive(request: WireRequest, _caller: Caller, reply: Reply): void {
    this.#open.add(reply);
    const key = request.headers['idempotency-key'] ?? '';
    const sent = request.headers['idempotency-first-sent'];
    const firstSentAt = sent === undefined ? undefined : Date.parse(sent);
    const { type, payload } = JSON.parse(request.body) as { type: string; payload: unknown };
    if (!parseJobKey(key).ok) {
      this.#open.delete(reply);
      reply(wireOf('key-invalid', { detail: 'not the form of a job key', key }));
      return;
    }
    const submission = submissionOf({ tenant: TENANT, key, type, payload, firstSentAt });
    void this.#gate.submit(submission).then((answer) => {
      if (!this.#life.alive) return;
      this.#open.delete(reply);
      reply(toWire(answer, key));
    });
  }
}

function chargeJob(life: Life, { plan, time, dice, charges }: JobSurroundings): JobType {
  return defineJob<Charge, null>({
    type: 'charge',
    rerun: 'safe',
    attempts: 1_000,
    backoffMs: 1_000,
    parse: (payload) => payload as Charge,
    async run(charge, { derivedKey }) {
      await life.hear(time.sleep(dice.between(0, plan.slowestEffectMs)));
      if (dice.chance(charges.failing)) throw new Error('not now');
      charges.charge(charge, derivedKey);
      await life.hear(time.sleep(dice.between(0, 100)));
      return null;
    },
  });
}

const REFUSALS = {
  in_progress: 'in-progress',
  mismatch: 'payload-mismatch',
  expired: 'key-expired',
  in_doubt: 'outcome-unknown',
  over_quota: 'over-quota',
  unavailable: 'manager-unavailable',
} as const satisfies Record<RefusedWhy, ProblemName>;

/** As the route of the server answers. */
function toWire(answer: Answer, key: string): WireAnswer {
  if (answer.status === 'refused') {
    const { retryAfterMs } = answer;
    const details = { detail: answer.why, key, ...(retryAfterMs && { retryAfterMs }) };
    return wireOf(REFUSALS[answer.why], details);
  }
  const marks = ['content-type', 'application/json', 'idempotency-replayed'];
  const headers = [...marks, String(answer.wasDuplicate)];
  const status = answer.status === 'rejected' ? 422 : 202;
  return { status, headers, body: JSON.stringify({ status: answer.status }) };
}

function wireOf(name: ProblemName, details: Parameters<typeof problemAnswer>[2]): WireAnswer {
  const refusal = problemAnswer(name, 'jobs', details);
  return { ...refusal, body: Buffer.from(refusal.body).toString() };
}
