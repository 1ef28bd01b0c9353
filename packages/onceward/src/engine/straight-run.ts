import {
  approach,
  type Claiming,
  claimAfterError,
  claimAfterSwap,
  type Found,
  prepareClaim,
  read,
} from './approach.ts';
import {
  afterThrow,
  type Ended,
  mustStandStill,
  type Settling,
  settle,
  settled,
  settlingOf,
  startEffect,
  writeSettled,
} from './attempt.ts';
import { Claim } from './claim.ts';
import { mayBeForgotten } from './first-sent.ts';
import type { Run } from './near-tier.ts';
import type { Effect, Execution, Operation, Settlement } from './operation.ts';
import {
  type EngineParts,
  isSoundSwap,
  prepare,
  type SwapWaiter,
  startSwap,
  unsound,
} from './parts.ts';
import type { SwapResult } from './record-store.ts';
import type { DurationMs } from './units.ts';

/**
 * The way that nearly every operation goes: claim what nobody has claimed, run the effect, settle. One object goes
 * along it, called when the store or the effect is done: a chain of async functions would cost more than the steps it
 * joins. Whatever turns out differently is left to the functions that know all the ways, from where it has got to.
 */
export class StraightRun implements SwapWaiter {
  readonly #parts: EngineParts;
  readonly #operation: Operation;
  readonly #effect: Effect;
  readonly #run: Run;
  readonly #arrivedAt: DurationMs;
  readonly #resolve: (execution: Execution) => void;
  readonly #reject: (error: unknown) => void;
  #claiming: Claiming | null = null;
  #claim: Claim | null = null;
  #settling: Settling | null = null;

  static start(
    parts: EngineParts,
    operation: Operation,
    effect: Effect,
    run: Run,
    arrivedAt: DurationMs,
  ): Promise<Execution> {
    return new Promise((resolve, reject) => {
      new StraightRun(parts, operation, effect, run, arrivedAt, resolve, reject).#begin();
    });
  }

  private constructor(
    parts: EngineParts,
    operation: Operation,
    effect: Effect,
    run: Run,
    arrivedAt: DurationMs,
    resolve: (execution: Execution) => void,
    reject: (error: unknown) => void,
  ) {
    this.#parts = parts;
    this.#operation = operation;
    this.#effect = effect;
    this.#run = run;
    this.#arrivedAt = arrivedAt;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /**
   * The guess that is right most often: nothing is there, or what this caller has placed is. A key that may have been
   * forgotten is looked up instead, as absence would not let it run.
   */
  #begin(): void {
    const { id, policy, placed, firstSentAt } = this.#operation;
    if (
      firstSentAt !== undefined &&
      mayBeForgotten(firstSentAt, policy, this.#parts.clock.time())
    ) {
      this.#goOn(read(this.#parts, this.#operation));
      return;
    }
    const expected = placed?.revision ?? null;
    const steps = placed?.steps ?? [];
    try {
      const guess = { kind: 'claim', expected, attempt: 1, steps } as const;
      const claiming = prepareClaim(this.#parts, this.#operation, guess);
      this.#claiming = claiming;
      const { next } = claiming;
      claiming.swap = startSwap(this.#parts, 'claim', policy, id, expected, next, this);
    } catch (error) {
      this.#fail(error);
    }
  }

  succeeded(result: SwapResult): void {
    if (!isSoundSwap(result)) {
      this.failed(unsound('a swap', result));
      return;
    }
    try {
      if (this.#claim === null) this.#claimed(result);
      else this.#settled(this.#claim, this.#settling!, result);
    } catch (error) {
      this.#fail(error);
    }
  }

  failed(error: unknown): void {
    if (this.#claim === null) {
      this.#goOn(claimAfterError(this.#parts, this.#operation, this.#claiming!, error));
    } else {
      this.#settleAfter(this.#claim, this.#settling!, () => Promise.reject(error));
    }
  }

  #claimed(result: SwapResult): void {
    const found = claimAfterSwap(this.#parts, this.#operation, this.#claiming!, result);
    if (!(found instanceof Claim) || mustStandStill(this.#operation, found)) {
      this.#goOn(found);
      return;
    }
    this.#run.markClaimed();
    this.#claim = found;
    startEffect(this.#parts, this.#operation, this.#effect, found).then(
      (settlement) => this.#ran(found, settlement),
      (error) => this.#await(afterThrow(this.#parts, this.#operation, found, error)),
    );
  }

  #ran(claim: Claim, settlement: Settlement): void {
    const parts = this.#parts;
    try {
      parts.world.crashPoint?.('after-effect');
      const settling =
        'outcome' in settlement ? settlingOf(parts, this.#operation, claim, settlement) : null;
      if (settling === null) {
        this.#await(settle(parts, this.#operation, claim, settlement));
        return;
      }
      this.#settling = settling;
      if (claim.startSettle(prepare(claim.id, settling.record), this)) return;
      this.#await(writeSettled(parts, this.#operation, claim, settling));
    } catch (error) {
      this.#fail(error);
    }
  }

  #settled(claim: Claim, settling: Settling, result: SwapResult): void {
    if (result.won) this.#conclude(settled(this.#parts, claim, settling, this.#run.isAwaited));
    else this.#settleAfter(claim, settling, () => Promise.resolve(result));
  }

  #settleAfter(claim: Claim, settling: Settling, tried: () => Promise<SwapResult>): void {
    this.#await(writeSettled(this.#parts, this.#operation, claim, settling, tried));
  }

  #await(ending: Promise<Ended | 'lost'>): void {
    ending.then(
      (ended) => {
        // Taken over while it ran: the winner's answer is the only one there is.
        if (ended === 'lost') this.#goOn(read(this.#parts, this.#operation));
        else this.#conclude(ended);
      },
      (error) => this.#fail(error),
    );
  }

  #goOn(found: Found | Promise<Found>): void {
    const ran = this.#claim !== null;
    const arrivedAt = this.#arrivedAt;
    const visit = { arrivedAt, probed: false, ran, waited: false, rounds: null };
    approach(this.#parts, this.#operation, this.#effect, this.#run, visit, found).then(
      (ended) => this.#conclude(ended),
      (error) => this.#fail(error),
    );
  }

  #conclude({ execution, answer }: Ended): void {
    const isDown = execution.kind === 'refused' && execution.reason === 'store_unavailable';
    const remembered = this.#operation.remember === false ? null : answer;
    this.#parts.near.end(this.#run, isDown ? execution : remembered);
    this.#resolve(execution);
  }

  #fail(error: unknown): void {
    this.#parts.near.end(this.#run, null);
    this.#reject(error);
  }
}
