import { isStoreError, OncewardError } from '../errors.ts';
import { NearAnswer, type Run } from '../near/near-tier.ts';
import type { Effect, Execution, Operation, RefusalReason, Settlement } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import { type Current, type Decision, decide, isHeldBy } from '../record/decide.ts';
import { mayBeForgotten } from '../record/first-sent.ts';
import { claimRecord } from '../record/transitions.ts';
import { NOT_RETAINED, type Revision, type SettledRecord } from '../record.ts';
import type { SwapResult } from '../record-store.ts';
import {
  prepare,
  readRecord,
  startSwap,
  understand,
  type Waiter,
} from '../store-access/store-calls.ts';
import type { DurationMs, EpochMs } from '../units.ts';
import {
  answerOf,
  emitWaited,
  RETRY_SOON,
  type RefusalDetails,
  refuse,
  refuseInProgress,
  replay,
} from './answer.ts';
import { NothingDone, OutcomeUnknown, RunningAttempt } from './attempt.ts';
import { Claim, type SettleWaiter, type WriteResult } from './claim.ts';
import { recordDoubt } from './doubt.ts';
import { type Claiming, readAfterLostReply } from './lost-claim.ts';
import { askProbe } from './probe.ts';
import { Rounds } from './rounds.ts';
import {
  type Answered,
  describeError,
  giveBack,
  putInDoubt,
  type Settling,
  settleLater,
  settlingOf,
  withoutOutcome,
} from './settlement.ts';
import { executeWithoutStore } from './unprotected.ts';
import { waitForChange } from './wait.ts';

/**
 * Carries out what `decide` says about one record, until there is a result:
 *
 *   begin     guess that nothing is there, and claim; a key that may have been forgotten is read first
 *   follow    decide on what is there: replay, wait, record a doubt, ask the probe, refuse or claim
 *   claim     one swap: the winner holds the claim, a loser follows what is there instead
 *   held      what is done with the claim; for `execute` that is run and settle, below
 *
 * Claim and settle call back and are not awaited: a chain of async functions would cost more than the steps it joins.
 * After every wait the claim is a belief; the next swap finds out whether it is still true.
 */
export abstract class Driver<Result> implements Waiter<SwapResult> {
  protected readonly parts: EngineParts;
  protected readonly operation: Operation;
  protected readonly arrivedAt: DurationMs;
  protected readonly resolve: (result: Result) => void;
  protected readonly reject: (error: unknown) => void;
  /** An effect is never run twice for one arrival. */
  protected hasRun = false;
  #hasProbed = false;
  /** For another process. */
  #hasWaited = false;
  #rounds: Rounds | null = null;
  #claiming: Claiming | null = null;

  constructor(
    parts: EngineParts,
    operation: Operation,
    arrivedAt: DurationMs,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ) {
    this.parts = parts;
    this.operation = operation;
    this.arrivedAt = arrivedAt;
    this.resolve = resolve;
    this.reject = reject;
  }

  /** The guess that is right most often: nothing is there, or what this caller has placed is. */
  begin(): void {
    const { policy, placed, firstSentAt } = this.operation;
    try {
      if (firstSentAt !== undefined) {
        // Absence would not let it run.
        const isTooOld = mayBeForgotten(firstSentAt, policy, this.parts.clock.time());
        if (isTooOld) return void this.follow(this.read());
      }
      this.#claim(placed?.revision ?? null, 1, placed?.steps ?? []);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Decides and carries out, as often as a sound store can make necessary. */
  protected async follow(found: Current | null | Promise<Current | null>): Promise<void> {
    const { parts, operation, arrivedAt } = this;
    const { id, policy, probe, signal } = operation;
    try {
      let current = await found;
      for (;;) {
        const decision = this.decide(current);
        if (decision.kind === 'claim' || decision.kind === 'doubt') {
          this.#rounds ??= new Rounds(parts.world);
          await this.#rounds.next();
          if (signal?.aborted) return this.#refuse(this.hasRun ? 'fence_lost' : 'deadline');
        }
        switch (decision.kind) {
          case 'claim':
            if (this.hasRun) return this.#refuse('fence_lost', RETRY_SOON);
            return this.#claim(decision.expected, decision.attempt, decision.steps);
          case 'replay':
            return await this.#replay(decision.record);
          case 'wait': {
            const leftMs = policy.waitMs - (parts.world.elapsed() - arrivedAt);
            if (leftMs <= 0 || signal?.aborted) return this.#refuse('in_progress');
            this.#hasWaited = true;
            await waitForChange(parts, operation, decision, leftMs);
            current = await this.read();
            break;
          }
          case 'doubt':
            ({ current } = await recordDoubt(parts, 'doubt', policy, id, decision, 'lease_lapsed'));
            break;
          case 'refuse':
            if (decision.reason !== 'in_doubt' || probe === undefined || this.#hasProbed) {
              return this.#refuse(decision.reason);
            }
            this.#hasProbed = true;
            current = await askProbe(parts, operation, probe, decision);
        }
      }
    } catch (error) {
      this.unreachable(error);
    }
  }

  #claim(expected: Revision | null, attempt: number, steps: Claiming['record']['steps']): void {
    const { parts, operation } = this;
    const record = claimRecord(operation, parts.nextOwner(), attempt, steps, parts.clock.now());
    const claimedAt = parts.world.elapsed();
    const next = prepare(operation.id, record);
    parts.world.crashPoint?.('before-claim');
    this.#claiming = { expected, record, next, claimedAt, swap: null };
    this.swap(this.#claiming);
  }

  /** The store has answered the claim. */
  succeeded(result: SwapResult): void {
    try {
      if (result.won) this.#hold(result.revision);
      else this.#meet(understand(this.parts, this.operation.id, result.current));
    } catch (error) {
      this.fail(error);
    }
  }

  /** The reply to the claim was lost. A read says whose record is there. */
  failed(error: unknown): void {
    readAfterLostReply(this.parts, this.operation, this.#claiming!, error).then(
      (current) => this.#meet(current),
      (cause) => this.unreachable(cause),
    );
  }

  /**
   * It may be our own claim that is there: the reply to it was lost, or a driver that sends again after a lost
   * connection lost against itself. But only while nobody has doubted it: somebody else may have answered that.
   */
  #meet(current: Current | null): void {
    if (!isHeldBy(current, this.#claiming!.record.owner)) void this.follow(current);
    else this.#hold(current.revision);
  }

  #hold(revision: Revision): void {
    const { parts, operation } = this;
    const { record, claimedAt } = this.#claiming!;
    try {
      parts.world.crashPoint?.('after-claim');
      this.held(new Claim(parts, operation.policy, operation.id, record, revision, claimedAt));
    } catch (error) {
      this.fail(error);
    }
  }

  async #replay(record: SettledRecord): Promise<void> {
    const { parts, operation, arrivedAt } = this;
    const answer = await answerOf(parts, record);
    if (answer === null) return this.#refuse('in_doubt');
    if (this.#hasWaited) emitWaited(parts, operation.id, arrivedAt);
    this.end(replay(parts, operation.id, answer, false), answer);
  }

  #refuse(reason: RefusalReason, details?: RefusalDetails): void {
    const { parts, operation, arrivedAt } = this;
    const refusal =
      reason === 'in_progress'
        ? refuseInProgress(parts, operation.id, arrivedAt)
        : refuse(parts, operation.id, reason, details);
    this.end(refusal);
  }

  /** What is done with a claim that is ours, as far as is known. */
  protected abstract held(claim: Claim): void;

  /** There is a result, and maybe an answer to remember. */
  protected abstract end(execution: Execution, answer?: NearAnswer | null): void;

  protected fail(error: unknown): void {
    this.reject(error);
  }

  /** The store did not answer. */
  protected unreachable(error: unknown): void {
    this.fail(error);
  }

  protected read(): Promise<Current | null> {
    return readRecord(this.parts, this.operation.policy, this.operation.id);
  }

  protected decide(current: Current | null): Decision {
    return decide(current, this.operation, this.operation.policy, this.parts.clock.time());
  }

  protected swap(claiming: Claiming): void {
    const { id, policy } = this.operation;
    const { expected, next } = claiming;
    claiming.swap = startSwap(this.parts, 'claim', policy, id, expected, next, this);
  }
}

/**
 * Goes on from the claim, and speaks for its process: what it learns, those behind its run learn.
 *
 *   held      the caller is still there and the claim is fresh, or it is checked again
 *   run       the effect, with a heartbeat beside it; `#ran` and `#threw` are how it ends
 *   settle    one swap; `settled` and `settleFailed` are how it ends
 *   end       the caller is answered, and those that wait are woken
 */
export class ExecuteDriver extends Driver<Execution> implements SettleWaiter {
  readonly #effect: Effect;
  readonly #run: Run;
  #claim: Claim | null = null;
  #settling: Settling | null = null;
  /** What the effect threw, where that is what is settled. */
  #thrown: { readonly error: unknown } | null = null;

  constructor(
    parts: EngineParts,
    operation: Operation,
    arrivedAt: DurationMs,
    resolve: (execution: Execution) => void,
    reject: (error: unknown) => void,
    effect: Effect,
    run: Run,
  ) {
    super(parts, operation, arrivedAt, resolve, reject);
    this.#effect = effect;
    this.#run = run;
  }

  protected override held(claim: Claim): void {
    const { parts, operation } = this;
    this.#claim = claim;
    this.hasRun = true;
    parts.observe({ type: 'claimed', id: operation.id, attempt: claim.attempt });
    this.#run.markClaimed();
    if (operation.signal?.aborted || !claim.isFresh) {
      this.#checkAgain(claim).catch((error) => this.fail(error));
    } else {
      this.#runEffect(claim);
    }
  }

  /** The last check before the effect: is the caller still there, is the claim still ours? */
  async #checkAgain(claim: Claim): Promise<void> {
    const { parts, operation } = this;
    const { id, signal } = operation;
    const cause = signal?.aborted ? null : await claim.refresh();
    if (cause === 'lost') return this.follow(this.read());
    // The caller may have left while the claim was renewed.
    if (cause === null && !signal?.aborted) return this.#runEffect(claim);
    const refusal =
      cause === null
        ? refuse(parts, id, 'deadline')
        : refuse(parts, id, 'store_unavailable', { ...RETRY_SOON, cause });
    await giveBack(parts, claim, false);
    this.end(refusal);
  }

  #runEffect(claim: Claim): void {
    const { parts, operation } = this;
    claim.startHeartbeat();
    parts.world.crashPoint?.('before-effect');
    let running: Promise<Settlement>;
    try {
      running = Promise.resolve(this.#effect(new RunningAttempt(parts, operation, claim)));
    } catch (error) {
      running = Promise.reject(error);
    }
    running.then(
      (settlement) => this.#ran(claim, settlement),
      (error) => this.#threw(claim, error).catch((cause) => this.fail(cause)),
    );
  }

  #ran(claim: Claim, settlement: Settlement): void {
    try {
      this.parts.world.crashPoint?.('after-effect');
      if ('outcome' in settlement) this.#settle(claim, settlement);
      else this.#endUnsettled(claim, settlement).catch((error) => this.fail(error));
    } catch (error) {
      this.fail(error);
    }
  }

  async #threw(claim: Claim, error: unknown): Promise<void> {
    const { onThrow } = this.operation.policy;
    if (claim.lost) return this.follow(this.read());
    if (onThrow === 'in_doubt' || error instanceof OutcomeUnknown) {
      await putInDoubt(this.parts, claim);
    } else if (onThrow === 'reject') {
      this.#thrown = { error };
      return this.#settle(claim, { as: 'rejected', outcome: describeError(error) });
    } else {
      await giveBack(this.parts, claim, !(error instanceof NothingDone));
    }
    throw error;
  }

  async #endUnsettled(claim: Claim, settlement: Exclude<Settlement, Answered>): Promise<void> {
    let recorded = true;
    if (settlement.as === 'in_doubt') recorded = await putInDoubt(this.parts, claim);
    else await giveBack(this.parts, claim, settlement.mayHaveActed === true);
    this.end(executed(claim, settlement, recorded));
  }

  #settle(claim: Claim, settlement: Answered): void {
    const settling = settlingOf(this.parts, this.operation, claim, settlement);
    if (settling instanceof Promise) {
      settling.then((packed) => this.#write(claim, packed)).catch((error) => this.fail(error));
    } else {
      this.#write(claim, settling);
    }
  }

  #write(claim: Claim, settling: Settling): void {
    this.#settling = settling;
    claim.settle(settling.record, this);
  }

  settled(result: WriteResult): void {
    const { parts } = this;
    const { settlement, outcome, record } = this.#settling!;
    const claim = this.#claim!;
    try {
      // Taken over while it ran: the winner's answer is the only one there is.
      if (result === 'lost') return void this.follow(this.read());
      parts.world.crashPoint?.('after-settle');
      const { id, attempt } = claim;
      parts.observe({ type: 'settled', id, state: record.state, attempt });
      const keptUntil = outcome.contentType === NOT_RETAINED ? null : record.keepUntil;
      const answer = this.#run.isAwaited ? new NearAnswer(record, outcome) : null;
      this.#conclude(executed(claim, settlement, true, keptUntil), answer);
    } catch (error) {
      this.fail(error);
    }
  }

  settleFailed(error: unknown): void {
    const claim = this.#claim!;
    const settling = this.#settling!;
    try {
      if (error instanceof OncewardError && error.code === 'ONCE_TOO_LARGE') {
        const less = withoutOutcome(this.parts, this.operation, claim, settling);
        if (less === null) throw error;
        this.#write(claim, less);
      } else {
        // The effect happened and its caller shall have the answer; the record is written when the store is back.
        settleLater(this.parts, claim, settling.record);
        this.#conclude(executed(claim, settling.settlement, false));
      }
    } catch (cause) {
      this.fail(cause);
    }
  }

  #conclude(execution: Execution, answer: NearAnswer | null = null): void {
    if (this.#thrown === null) this.end(execution, answer);
    else this.fail(this.#thrown.error);
  }

  protected override end(execution: Execution, answer: NearAnswer | null = null): void {
    const isDown = execution.kind === 'refused' && execution.reason === 'store_unavailable';
    const remembered = this.operation.remember === false ? null : answer;
    this.parts.near.end(this.#run, isDown ? execution : remembered);
    this.resolve(execution);
  }

  protected override fail(error: unknown): void {
    this.parts.near.end(this.#run, null);
    this.reject(error);
  }

  protected override unreachable(error: unknown): void {
    const { parts, operation } = this;
    if (this.hasRun && isStoreError(error)) {
      // Taken over, and the winner's answer is out of reach: this arrival must not run again, protected or not.
      const details = { ...RETRY_SOON, cause: error };
      this.end(refuse(parts, operation.id, 'fence_lost', details));
      return;
    }
    executeWithoutStore(parts, operation, this.#effect, error).then(
      (execution) => this.end(execution),
      (cause) => this.fail(cause),
    );
  }
}

function executed(
  { attempt, fence }: Claim,
  settlement: Settlement,
  recorded: boolean,
  keptUntil: EpochMs | null = null,
): Execution {
  return { kind: 'executed', settlement, attempt, fence, recorded, keptUntil };
}
