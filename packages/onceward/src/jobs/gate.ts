import type { EngineEvent, Observe } from '../engine/events.ts';
import { TimerLines } from '../engine/store-access/timer-lines.ts';
import { type DurationMs, MIB } from '../engine/units.ts';
import type { Timer, World } from '../engine/world.ts';
import { AnswerMemory } from './answer-memory.ts';
import { submissionId } from './job-record.ts';
import type { CancelResult, JobList, JobQuery, JobsPort, JobView } from './jobs-port.ts';
import { type Answer, type RefusedWhy, refused, type Submission } from './submission.ts';
import { type JobWindows, jobWindows } from './windows.ts';

export interface GateOptions {
  readonly manager: JobsPort;
  readonly world: World;
  readonly windows?: JobWindows;
  /** Receives the events of what the gate answers itself, as those of an engine. */
  readonly observe?: Observe;
  /** Called with the error behind a submission that was answered as unavailable. */
  readonly onFault?: (error: unknown) => void;
}

/** A submission that this gate has forwarded. Others with the same key wait for it. */
interface Pending {
  readonly fingerprint: string;
  readonly answer: Promise<Answer>;
}

/** How long a full gate or an unreachable manager asks to be left alone. */
const RETRY_MS = 1_000;
/** All payloads that are pending at once, together. */
const PENDING_CHARACTERS = 256 * MIB;

/**
 * Receives submissions. What it knows to be settled it answers itself; of several concurrent ones with one key it
 * forwards one, and the others get its answer. It decides nothing: only a manager may say that a key is new.
 */
export class Gate implements JobsPort {
  readonly #manager: JobsPort;
  readonly #world: World;
  readonly #windows: JobWindows;
  readonly #observe: Observe;
  readonly #onFault: ((error: unknown) => void) | undefined;
  readonly #answered: AnswerMemory;
  readonly #pending = new Map<string, Pending>();
  /** Jobs that were cancelled through this gate, and until when it could remember their submission. */
  readonly #cancelled = new Map<string, DurationMs>();
  #pendingCharacters = 0;
  readonly #timers: TimerLines;
  readonly #startedAt: DurationMs;
  #cleanup: Timer | null = null;
  #closed = false;

  constructor(options: GateOptions) {
    this.#manager = options.manager;
    this.#world = options.world;
    this.#windows = options.windows ?? jobWindows;
    this.#observe = options.observe ?? (() => {});
    this.#onFault = options.onFault;
    this.#answered = new AnswerMemory(this.#windows.maxEntries);
    this.#timers = new TimerLines(options.world);
    this.#startedAt = options.world.elapsed();
    this.#scheduleCleanup();
  }

  get size(): { readonly pending: number; readonly answered: number; readonly evictions: number } {
    const { size: answered, evictions } = this.#answered;
    return { pending: this.#pending.size, answered, evictions };
  }

  submit(submission: Submission, waitMs = this.#windows.waitMs): Promise<Answer> {
    const name = `${submission.tenant}\0${submission.key}`;
    const known = this.#known(name, submission);
    if (known !== null) return Promise.resolve(this.#reported(submission, known));
    const pending = this.#pending.get(name);
    return pending === undefined
      ? this.#sendOn(name, submission, waitMs)
      : this.#gather(pending, name, submission, waitMs);
  }

  find(tenant: string, jobId: string): Promise<JobView | null> {
    return this.#manager.find(tenant, jobId);
  }

  list(query: JobQuery): Promise<JobList> {
    return this.#manager.list(query);
  }

  async cancel(tenant: string, jobId: string): Promise<CancelResult> {
    const result = await this.#manager.cancel(tenant, jobId);
    if (result === 'cancelled' || result === 'stopping') {
      // From here on only the manager can say what became of it.
      this.#cancelled.set(jobId, this.#now() + this.#windows.committedMs);
      const [oldest] = this.#cancelled.keys();
      if (this.#cancelled.size > this.#windows.maxEntries) this.#cancelled.delete(oldest!);
    }
    return result;
  }

  close(): void {
    this.#closed = true;
    this.#cleanup?.cancel();
  }

  #known(name: string, submission: Submission): Answer | null {
    const now = this.#now();
    const known = this.#answered.get(name, now);
    if (known === undefined) return null;
    if (known.fingerprint !== submission.fingerprint) return refused('mismatch');
    if (this.#cancelled.has(known.idOrReason)) return null;
    const keepMs = known.keepUntil - now;
    return known.state === 'committed'
      ? { status: 'committed', jobId: known.idOrReason, wasDuplicate: true, keepMs }
      : { status: 'rejected', reason: known.idOrReason, wasDuplicate: true, keepMs };
  }

  /** Waits for the one that was forwarded. */
  async #gather(
    first: Pending,
    name: string,
    submission: Submission,
    waitMs: DurationMs,
  ): Promise<Answer> {
    const arrivedAt = this.#world.elapsed();
    let pending = first;
    for (;;) {
      const left = waitMs - (this.#world.elapsed() - arrivedAt);
      const answer = left > 0 ? await this.#waitFor(pending, left) : STILL_PENDING;
      const isSame = pending.fingerprint === submission.fingerprint && !isExpired(answer);
      if (isSame || answer === STILL_PENDING) {
        return this.#reported(submission, asDuplicate(answer), this.#world.elapsed() - arrivedAt);
      }

      // Another job under the same key, or one that came too late: which is the right one, only the store can say.
      const known = this.#known(name, submission);
      if (known !== null)
        return this.#reported(submission, known, this.#world.elapsed() - arrivedAt);
      const next = this.#pending.get(name);
      if (next === undefined) return this.#sendOn(name, submission, waitMs);
      pending = next;
    }
  }

  /** Pending entries are never evicted, so a gate that is full of them takes in no more. */
  #sendOn(name: string, submission: Submission, waitMs: DurationMs): Promise<Answer> {
    const { fingerprint, payload } = submission;
    if (this.#isFullFor(payload.length)) {
      const full = refused('over_quota', { retryAfterMs: RETRY_MS });
      return Promise.resolve(this.#reported(submission, full));
    }
    this.#pendingCharacters += payload.length;
    const end = (answer: Answer): Answer => {
      this.#pending.delete(name);
      this.#pendingCharacters -= payload.length;
      if (answer.status === 'committed' || answer.status === 'rejected') {
        this.#remember(name, fingerprint, answer);
      }
      return answer;
    };
    // A port that cannot be reached: whether the job was created is for the retry to find out, under its key.
    const answer = this.#ask(submission, waitMs).then(end, (error) => {
      this.#onFault?.(error);
      return end(UNREACHABLE);
    });
    this.#pending.set(name, { fingerprint, answer });
    return answer;
  }

  #ask(submission: Submission, waitMs: DurationMs): Promise<Answer> {
    try {
      return this.#manager.submit(submission, waitMs);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** However long the payloads are, one can be pending. */
  #isFullFor(characters: number): boolean {
    if (this.#pending.size >= this.#windows.maxEntries) return true;
    return this.#pending.size > 0 && this.#pendingCharacters + characters > PENDING_CHARACTERS;
  }

  #remember(
    name: string,
    fingerprint: string,
    answer: Extract<Answer, { status: 'committed' | 'rejected' }>,
  ): void {
    const isCommitted = answer.status === 'committed';
    const window = isCommitted ? this.#windows.committedMs : this.#windows.rejectedMs;
    this.#answered.set(name, {
      fingerprint,
      state: answer.status,
      idOrReason: isCommitted ? answer.jobId : answer.reason,
      // Never longer than the manager itself remembers, or two gates could answer differently.
      keepUntil: this.#now() + Math.min(window, answer.keepMs),
      used: false,
    });
  }

  /** The manager emits the events of what was forwarded; this emits the rest. */
  #reported(
    { tenant, key }: Submission,
    answer: Answer,
    waitedMs: DurationMs | null = null,
  ): Answer {
    const id = submissionId(tenant, key);
    if (answer === STILL_PENDING) {
      this.#observe({ type: 'in_progress', id, waitedMs: waitedMs ?? 0 });
      return answer;
    }
    if (waitedMs !== null) this.#observe({ type: 'waited', id, waitedMs });
    if (answer.status !== 'refused') {
      const state = answer.status === 'rejected' ? 'rejected' : 'committed';
      this.#observe({ type: 'replayed', id, near: true, state });
      return answer;
    }
    const type = REFUSAL_EVENTS[answer.why];
    if (type !== null) this.#observe({ type, id });
    return answer;
  }

  #waitFor(pending: Pending, ms: DurationMs): Promise<Answer> {
    return new Promise((resolve) => {
      const limit = { dueAt: 0, isOver: false, due: () => resolve(STILL_PENDING) };
      this.#timers.start(ms, limit);
      void pending.answer.then((answer) => {
        limit.isOver = true;
        resolve(answer);
      });
    });
  }

  /** Steady: an answer's time is up after its window, whatever the wall clock does. Whole, to take little memory. */
  #now(): DurationMs {
    return Math.floor(this.#world.elapsed() - this.#startedAt);
  }

  #scheduleCleanup(): void {
    if (this.#closed) return;
    this.#cleanup = this.#world.startTimer(this.#windows.cleanupMs, () => {
      const now = this.#now();
      this.#answered.forgetExpired(now);
      for (const [id, until] of this.#cancelled) if (until <= now) this.#cancelled.delete(id);
      this.#scheduleCleanup();
    });
  }
}

const STILL_PENDING: Answer = refused('in_progress', { retryAfterMs: RETRY_MS });
const UNREACHABLE: Answer = refused('unavailable', { retryAfterMs: RETRY_MS });

/** `null`: an engine emits none either. */
const REFUSAL_EVENTS = {
  in_progress: null,
  mismatch: 'mismatch',
  in_doubt: 'refused_in_doubt',
  expired: 'expired',
  over_quota: 'over_quota',
  unavailable: null,
} as const satisfies Record<RefusedWhy, EngineEvent['type'] | null>;

function isExpired(answer: Answer): boolean {
  return answer.status === 'refused' && answer.why === 'expired';
}

function asDuplicate(answer: Answer): Answer {
  return answer.status === 'refused' ? answer : { ...answer, wasDuplicate: true };
}
