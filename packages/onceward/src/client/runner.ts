import type { Breakers } from './circuit-breaker.ts';
import { type ClientTimer, type ClientWorld, MINUTE, pause, SECOND } from './client-world.ts';
import type { Connectivity } from './connectivity.ts';
import { currentRequest, type WaitingOperation } from './operation.ts';
import type { OperationBook } from './operation-book.ts';
import type { OutboxEvent } from './outbox-events.ts';
import { backoffMs, LONGEST_WAIT, type RetryPolicy } from './retry-policy.ts';
import { type SenderOptions, sendOnce } from './sender.ts';
import { fail, type Judged, type Next, transition } from './transition.ts';
import { afterDoubt, type Verdict } from './verdict.ts';

export interface RunnerOptions {
  readonly book: OperationBook;
  readonly world: ClientWorld;
  readonly policy: RetryPolicy;
  readonly breakers: Breakers;
  readonly connectivity: Connectivity;
  readonly sender: SenderOptions;
  /** How many lanes send at the same time. */
  readonly concurrency: number;
  /** How long the server remembers a key; see `isPastWindow`. */
  readonly replayWindowMs: number;
  readonly tell: (event: OutboxEvent, operation: { id: string; lane: string } | null) => void;
  readonly isPaused: () => boolean;
  readonly onUnauthorized: () => void;
}

/** What another tab stored without being able to say so is found at the latest after this. */
const RESCAN_EVERY = 30 * SECOND;

interface Lane {
  busy: boolean;
  /** Something happened while it was busy: look again. */
  again: boolean;
  timer: ClientTimer | null;
  storageFailures: number;
}

/**
 * Sends what waits: lane by lane in parallel, within a lane strictly one after the other.
 *
 * Where it can be killed, and what the next life finds:
 *
 * | killed                                    | stored                            | next life                        |
 * |-------------------------------------------|-----------------------------------|----------------------------------|
 * | before the enqueue is durable             | nothing                           | never sent; the caller got no id |
 * | after it, before the attempt is marked    | waiting, nothing unsettled        | sends                            |
 * | after the mark, before the request leaves | waiting, unsettled                | sends the same key               |
 * | after the request, before the answer      | the same                          | the same key: replayed           |
 * | after the answer, before it is written    | the same                          | the same key: replayed           |
 * | after it is written                       | done, or the next step of a group | nothing to do, or the next step  |
 */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #signal: AbortSignal;
  #sending = 0;
  #slotsTaken = 0;
  readonly #slotQueue: (() => void)[] = [];
  #whenNothingIsBusy: (() => void)[] = [];

  constructor(options: RunnerOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  get sending(): number {
    return this.#sending;
  }

  /** Works until the signal is aborted. */
  async run(): Promise<void> {
    const { connectivity, world } = this.#options;
    const unlisten = connectivity.listen(() => this.wakeAll());
    while (!this.#signal.aborted) {
      await this.#rescan();
      await pause(world, RESCAN_EVERY, this.#signal);
    }
    unlisten();
    await this.#whenIdle();
  }

  /** Works until everything that can be sent now has been; what must wait is left for later. */
  async drain(): Promise<void> {
    await this.#rescan();
    await this.#whenIdle();
  }

  wake(name: string): void {
    if (!this.#signal.aborted) void this.#drive(name);
  }

  wakeAll(): void {
    void this.#rescan();
  }

  async #rescan(): Promise<void> {
    try {
      for await (const name of this.#options.book.lanes()) this.wake(name);
    } catch (error) {
      this.#tellOfStorage(error);
    }
  }

  #tellOfStorage(error: unknown): void {
    this.#options.tell({ type: 'storage_failed', message: String(error) }, null);
  }

  #whenIdle(): Promise<void> {
    if (!this.#isBusy()) return Promise.resolve();
    return new Promise((resolve) => this.#whenNothingIsBusy.push(resolve));
  }

  async #drive(name: string): Promise<void> {
    const lane = this.#lane(name);
    lane.again = true;
    if (lane.busy) return;
    lane.busy = true;
    lane.timer?.cancel();
    lane.timer = null;
    try {
      while (lane.again && !this.#signal.aborted) {
        lane.again = false;
        while (await this.#advance(name, lane)) lane.storageFailures = 0;
      }
    } catch (error) {
      lane.storageFailures += 1;
      this.#tellOfStorage(error);
      const { policy, world } = this.#options;
      this.#wakeLater(name, lane, backoffMs(policy, lane.storageFailures, world));
    }
    lane.busy = false;
    if (lane.timer === null) this.#lanes.delete(name);
    if (!this.#isBusy()) for (const resolve of this.#whenNothingIsBusy.splice(0)) resolve();
  }

  #isHalted(): boolean {
    return this.#signal.aborted || this.#options.isPaused();
  }

  #isBusy(): boolean {
    return [...this.#lanes.values()].some((lane) => lane.busy);
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      lane = { busy: false, again: false, timer: null, storageFailures: 0 };
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  #wakeLater(name: string, lane: Lane, ms: number): void {
    if (this.#signal.aborted) return;
    lane.timer?.cancel();
    lane.timer = this.#options.world.startTimer(ms, () => {
      lane.timer = null;
      this.wake(name);
    });
  }

  /** Does one thing for the lane. `false`: there is nothing to do now. */
  async #advance(name: string, lane: Lane): Promise<boolean> {
    const { book, world, breakers, connectivity } = this.#options;
    if (this.#isHalted() || !connectivity.online()) return false;
    const operation = await book.head(name, world.now());
    if (operation === null) return false;
    const waitMs = operation.notBefore - world.now();
    // A longer one was written down by a clock that has been set back since.
    if (waitMs > 0 && waitMs <= LONGEST_WAIT) {
      this.#wakeLater(name, lane, waitMs);
      return false;
    }
    await this.#takeSlot();
    try {
      // The wait for a slot may have been long enough for all of this to change.
      if (this.#isHalted()) return false;
      const breaker = breakers.for(currentRequest(operation).request.url);
      const awayMs = breaker.admit();
      if (awayMs > 0) {
        this.#wakeLater(name, lane, awayMs);
        return false;
      }
      let verdict: Verdict | null = null;
      try {
        verdict = await this.#attempt(operation);
      } finally {
        // Also when the storage failed in between: an admitted attempt that is never heard of shuts all others out.
        breaker.report(verdict);
      }
      return true;
    } finally {
      this.#giveSlot();
    }
  }

  /** `null`: nothing was sent, because the operation had changed or must not be sent any more. */
  async #attempt(operation: WaitingOperation): Promise<Verdict | null> {
    const { book, world, replayWindowMs, tell } = this.#options;
    const onlyAttempt = operation.unsettledSince === null;
    let current = operation;
    if (!onlyAttempt && isPastWindow(operation, world.now(), replayWindowMs)) {
      const next = fail(operation, 'unknown', PAST_WINDOW, world.now());
      if (await book.replace(operation, next)) this.#tellWhatBecame(operation, next);
      return null;
    }
    if (onlyAttempt) {
      current = { ...operation, unsettledSince: world.now() };
      if (!(await book.replace(operation, current))) return null;
      current = { ...current, version: operation.version + 1 };
    }
    const attempt = current.attempts + current.misses + 1;
    const step = { step: current.cursor + 1, steps: current.steps.length };
    this.#sending += 1;
    tell({ type: 'sending', id: current.id, attempt, ...step }, current);
    const sent = await sendOnce(current, this.#signal, this.#options.sender);
    this.#sending -= 1;
    const verdict = onlyAttempt ? sent.verdict : afterDoubt(sent.verdict);
    if (verdict.kind !== 'aborted') {
      await this.#settle(current, { verdict, answer: sent.answer, onlyAttempt });
    }
    if (verdict.kind === 'unauthorized') this.#options.onUnauthorized();
    return verdict;
  }

  /**
   * Writes down what came of an attempt. If the operation has changed meanwhile (someone wishes to edit it),
   * the answer is applied to what it is now; if it has another key by now, the answer is not its own.
   */
  async #settle(operation: WaitingOperation, judged: Judged): Promise<void> {
    const { book, policy, world } = this.#options;
    const { key } = currentRequest(operation);
    let current: WaitingOperation | null = operation;
    let failures = 0;
    while (current !== null && currentRequest(current).key === key && !this.#signal.aborted) {
      const next = transition(current, judged, policy, world);
      try {
        if (await book.replace(current, failures === 0 ? next : withoutBodies(next))) {
          this.#tellWhatBecame(current, next);
          return;
        }
        current = await book.waiting(operation.id);
      } catch (error) {
        // The answer is known and must not be lost for a full disk: it is tried again, and slimmer.
        failures += 1;
        this.#tellOfStorage(error);
        await pause(world, backoffMs(policy, failures, world), this.#signal);
        current = await book.waiting(operation.id).catch(() => current);
      }
    }
  }

  #tellWhatBecame(previous: WaitingOperation, next: Next): void {
    const { id } = previous;
    const tell = (event: OutboxEvent) => this.#options.tell(event, previous);
    switch (next.state) {
      case 'done':
        tell({ type: 'done', id, replayed: next.answers.at(-1)?.replayed ?? false });
        break;
      case 'failed':
        tell({ type: 'failed', id, outcome: next.outcome, reason: next.reason });
        break;
      case 'gone':
        tell({ type: 'cancelled', id });
        break;
      case 'waiting':
        this.#tellOfWaiting(previous, next, tell);
    }
  }

  #tellOfWaiting(
    previous: WaitingOperation,
    next: WaitingOperation,
    tell: (event: OutboxEvent) => void,
  ): void {
    const { id } = next;
    const key = next.steps[0]?.key ?? '';
    if (previous.direction !== next.direction) {
      tell({ type: 'turning_back', id, reason: next.cause ?? '' });
    } else if (key !== previous.steps[0]?.key) {
      tell({ type: 'edited', id, key });
    } else if (next.problem !== null) {
      const inMs = Math.max(0, next.notBefore - this.#options.world.now());
      tell({ type: 'retrying', id, reason: next.problem, inMs });
    }
  }

  #takeSlot(): Promise<void> {
    if (this.#slotsTaken < this.#options.concurrency) {
      this.#slotsTaken += 1;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#slotQueue.push(resolve));
  }

  #giveSlot(): void {
    const next = this.#slotQueue.shift();
    if (next === undefined) this.#slotsTaken -= 1;
    else next();
  }
}

const PAST_WINDOW = 'no answer, and the server may have forgotten the key';

/**
 * Whether an attempt without an answer lies so far back that the server may have forgotten its key. A clock
 * that was set back tells nothing, which is treated the same.
 */
function isPastWindow(operation: WaitingOperation, now: number, windowMs: number): boolean {
  const agoMs = now - (operation.unsettledSince ?? now);
  return agoMs > windowMs || agoMs < -MINUTE;
}

function withoutBodies(next: Next): Next {
  if (next.state !== 'done') return next;
  return { ...next, answers: next.answers.map((answer) => answer && { ...answer, body: null }) };
}
