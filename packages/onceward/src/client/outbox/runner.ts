import type { CircuitBreaker } from '../circuit-breaker.ts';
import { type ClientTimer, HOUR, MINUTE, pause, SECOND } from '../client-world.ts';
import type { Connectivity } from '../connectivity.ts';
import { backoffMs } from '../retry-policy.ts';
import { afterDoubt, type Verdict } from '../verdict.ts';
import { forgetOld, type Retention } from './housekeeping.ts';
import { currentRequest, ownerOf, type WaitingOperation } from './operation.ts';
import type { OperationBook } from './operation-book.ts';
import type { OutboxEvent } from './outbox-events.ts';
import type { RunnerLock } from './runner-lock.ts';
import { Sender, type SenderOptions, type Sent } from './sender.ts';
import { fail, type Next, transition, type Ways } from './transition.ts';

/** What the parts of an outbox share. */
export interface OutboxCore extends SenderOptions, Ways {
  readonly book: OperationBook;
  breakerFor(url: string): CircuitBreaker;
  readonly connectivity: Connectivity;
  readonly lock: RunnerLock;
  readonly retention: Retention;
  readonly catchDuplicatesWithinMs?: number;
  /** How many lanes send at the same time. */
  readonly concurrency: number;
  /** How long the server remembers a key; see `isPastWindow`. */
  readonly replayWindowMs: number;
  emit(event: OutboxEvent): void;
  /** Wakes the sender of this operation, here or in another tab. */
  changed(id: string): void;
  /** An operation has become another. */
  became(previous: WaitingOperation, next: Next): void;
  isPaused(): boolean;
  /** Reads a pause that another tab, or an earlier process, has stored. */
  readPause(): Promise<void>;
  /** The server has refused the credentials of this owner. */
  refused(owner: string | null): Promise<void>;
}

/** What another tab stored without being able to say so is found at the latest after this. */
const RESCAN_EVERY = 30 * SECOND;
/** When a lane is woken again after its storage failed. */
const STORAGE_AGAIN = 5 * SECOND;

interface Lane {
  driving?: Promise<void> | undefined;
  /** Something happened while it was busy: run again. */
  again: boolean;
  timer?: ClientTimer | undefined;
  /** The wait that was last emitted. */
  emitted?: number;
}

/**
 * Sends what waits: lane by lane in parallel, within a lane strictly one after the other.
 *
 * Where it can be killed, and what the next process finds:
 *
 * | killed                                    | stored                            | next process                     |
 * |-------------------------------------------|-----------------------------------|----------------------------------|
 * | before the enqueue is durable             | nothing                           | never sent; the caller got no id |
 * | after it, before the attempt is marked    | waiting, nothing unsettled        | sends                            |
 * | after the mark, before the request leaves | waiting, unsettled                | sends the same key               |
 * | after the request, before the answer      | the same                          | the same key: replayed           |
 * | after the answer, before it is written    | the same                          | the same key: replayed           |
 * | after it is written                       | done, or the next step of a group | nothing to do, or the next step  |
 */
export class Runner {
  readonly #core: OutboxCore;
  readonly #sender: Sender;
  readonly #lanes = new Map<string, Lane>();
  readonly #signal: AbortSignal;
  /** When what is old is forgotten next. */
  #forgetAt = 0;
  /** Requests on their way. */
  sending = 0;
  #slotsTaken = 0;
  readonly #slotQueue: (() => void)[] = [];

  constructor(core: OutboxCore, signal: AbortSignal) {
    this.#core = core;
    this.#sender = new Sender(core);
    this.#signal = signal;
  }

  /** Works until the signal is aborted. */
  async run(): Promise<void> {
    const { connectivity, world } = this.#core;
    const unlisten = connectivity.listen(() => void this.wakeAll());
    while (!this.#signal.aborted) {
      await this.wakeAll();
      await pause(world, RESCAN_EVERY, this.#signal, true);
    }
    unlisten();
    await this.#whenIdle();
  }

  /** Works until everything that can be sent now has been; what must wait is left for later. */
  async drain(): Promise<void> {
    await this.wakeAll();
    await this.#whenIdle();
  }

  /** Wakes an owner's lane. */
  wake(queue: string): void {
    if (this.#signal.aborted) return;
    const lane: Lane = this.#lanes.get(queue) ?? { again: true };
    this.#lanes.set(queue, lane);
    lane.again = true;
    lane.driving ??= this.#drive(queue, lane);
  }

  /** Reads the stored pause and wakes every lane. */
  async wakeAll(): Promise<void> {
    const { book, retention, world, readPause } = this.#core;
    try {
      // Who resumed may have died before saying so.
      await readPause();
      for await (const queue of book.queues()) this.wake(queue);
      if (world.elapsed() < this.#forgetAt) return;
      this.#forgetAt = world.elapsed() + HOUR;
      await forgetOld(book, retention, world);
    } catch (error) {
      this.#emitStorageFailed(error);
    }
  }

  #emitStorageFailed(error: unknown): void {
    this.#core.emit({ type: 'storage_failed', message: String(error) });
  }

  async #whenIdle(): Promise<void> {
    for (;;) {
      const busy = [...this.#lanes.values()].find(({ driving }) => driving !== undefined);
      if (busy === undefined) return;
      await busy.driving;
    }
  }

  async #drive(name: string, lane: Lane): Promise<void> {
    lane.timer?.cancel();
    lane.timer = undefined;
    try {
      while (lane.again && !this.#signal.aborted) {
        lane.again = false;
        if (await this.#advance(name, lane)) lane.again = true;
      }
    } catch (error) {
      this.#emitStorageFailed(error);
      this.#wakeLater(name, lane, STORAGE_AGAIN);
    }
    lane.driving = undefined;
    if (!lane.timer) this.#lanes.delete(name);
  }

  #isHalted(): boolean {
    return this.#signal.aborted || this.#core.isPaused();
  }

  #wakeLater(name: string, lane: Lane, ms: number): void {
    if (this.#signal.aborted) return;
    lane.timer?.cancel();
    lane.timer = this.#core.world.startTimer(ms, () => {
      lane.timer = undefined;
      this.wake(name);
    });
  }

  /** Does one thing for the lane. `false`: there is nothing to do now. */
  async #advance(name: string, lane: Lane): Promise<boolean> {
    const { book, world, groups, breakerFor, connectivity, owner, emit } = this.#core;
    if (this.#isHalted() || !connectivity.online()) return false;
    const operation = await book.head(name, world.now());
    if (operation === null || ownerOf(operation) !== owner()) return false;
    if (operation.group && !groups) return false;
    const breaker = breakerFor(currentRequest(operation).request.url);
    const putOff = (inMs: number) => {
      const { id, problem, notBefore } = operation;
      // Either changes with each reason to wait.
      const wait = notBefore + breaker.openUntil;
      if (lane.emitted !== wait) {
        emit({ type: 'retrying', id, reason: problem ?? 'CIRCUIT_OPEN', inMs });
      }
      lane.emitted = wait;
      this.#wakeLater(name, lane, inMs);
      return false;
    };
    const waitMs = operation.notBefore - world.now();
    // A clock that has been set back since would make it longer than was meant.
    if (waitMs > 0 && world.now() >= operation.delayedAt) {
      return putOff(Math.max(waitMs, breaker.leftMs()));
    }
    await this.#takeSlot();
    try {
      // The wait for a slot may have been long enough for all of this to change.
      await this.#core.readPause();
      if (this.#isHalted()) return false;
      const awayMs = breaker.admit(operation.notBefore < 0);
      if (awayMs > 0) return putOff(awayMs);
      const { openUntil } = breaker;
      let verdict: Verdict | null = null;
      try {
        verdict = await this.#attempt(operation);
      } finally {
        // Also when the storage failed in between: an admitted attempt that is never reported shuts all others out.
        breaker.report(verdict, true);
      }
      // Those that the circuit has turned away need not wait for the end that was emitted for them.
      if (breaker.openUntil < openUntil) for (const other of this.#lanes.keys()) this.wake(other);
      return true;
    } finally {
      this.#giveSlot();
    }
  }

  /** `null`: nothing was sent, because the operation had changed or must not be sent any more. */
  async #attempt(operation: WaitingOperation): Promise<Verdict | null> {
    const { book, replayWindowMs, world, emit, became } = this.#core;
    const firstSent = operation.unsettledSince;
    const now = world.now();
    if (isPastWindow(operation, now, replayWindowMs)) {
      const next = fail(operation, 'unknown', WINDOW_PASSED, now);
      if (await book.replace(operation, next)) became(operation, next);
      return null;
    }
    const request = this.#sender.prepare(operation);
    if ('verdict' in request) {
      // Before the mark: what was never sent must not seem to have been.
      await this.#settle(operation, request, firstSent === null);
      return null;
    }
    // Each attempt is marked: one that another tab has in flight may still happen when this one has not.
    const current = {
      ...operation,
      version: operation.version + 1,
      begun: (operation.begun ?? 0) + 1,
      unsettledSince: firstSent ?? now,
    };
    if (!(await book.replace(operation, current))) return null;
    const { id, attempts, misses, cursor, steps } = current;
    const attempt = attempts + misses + 1;
    this.sending += 1;
    emit({ type: 'sending', id, attempt, step: cursor + 1, steps: steps.length });
    const sent = await this.#sender.send(current, request, firstSent, this.#signal);
    this.sending -= 1;
    await this.#settle(current, sent, firstSent === null);
    const { verdict } = sent;
    if (verdict.kind === 'unauthorized') await this.#core.refused(ownerOf(operation));
    return verdict;
  }

  /**
   * Stores the outcome of an attempt. If the operation has changed meanwhile (someone wishes to edit it),
   * the answer is applied to what it is now; if it has another key by now, the answer is not its own.
   */
  async #settle(operation: WaitingOperation, sent: Sent, wasFirst: boolean): Promise<void> {
    const { book, policy, world, became } = this.#core;
    const { key } = currentRequest(operation);
    let current: WaitingOperation | null = operation;
    let failures = 0;
    while (current !== null && currentRequest(current).key === key && !this.#signal.aborted) {
      const onlyAttempt = wasFirst && current.begun === operation.begun;
      const verdict = onlyAttempt ? sent.verdict : afterDoubt(sent.verdict);
      const next = transition(current, { ...sent, verdict, onlyAttempt }, this.#core);
      try {
        if (await book.replace(current, failures === 0 ? next : withoutBodies(next))) {
          became(current, next);
          return;
        }
        current = await book.waiting(operation.id);
      } catch (error) {
        // The answer is known and must not be lost for a full disk: it is tried again, and slimmer.
        failures += 1;
        this.#emitStorageFailed(error);
        await pause(world, backoffMs(policy, failures, world), this.#signal);
        current = await book.waiting(operation.id).catch(() => current);
      }
    }
  }

  async #takeSlot(): Promise<void> {
    if (this.#slotsTaken < this.#core.concurrency) this.#slotsTaken += 1;
    else await new Promise<void>((resolve) => this.#slotQueue.push(resolve));
  }

  #giveSlot(): void {
    const next = this.#slotQueue.shift();
    if (next === undefined) this.#slotsTaken -= 1;
    else next();
  }
}

const WINDOW_PASSED = {
  code: 'WINDOW_PASSED',
  reason: 'the key may be forgotten',
} as const;

/**
 * Whether an attempt without an answer lies so far back that the server may have forgotten its key. A clock
 * that was set back proves nothing, which is treated the same. A user who retries has decided that.
 */
function isPastWindow(operation: WaitingOperation, now: number, windowMs: number): boolean {
  const { unsettledSince, retriedAt } = operation;
  if (unsettledSince === null) return false;
  const agoMs = now - (retriedAt ?? unsettledSince);
  return agoMs > windowMs || agoMs < -MINUTE;
}

function withoutBodies(next: Next): Next {
  if (next.state === 'failed') return { ...next, answer: null };
  if (next.state !== 'done') return next;
  return { ...next, answers: next.answers.map((answer) => answer && { ...answer, body: null }) };
}
