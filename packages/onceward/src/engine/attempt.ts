import { packOutcome, plainOutcome, refuse } from './answer.ts';
import type { Claim, WriteResult } from './claim.ts';
import { OncewardError } from './errors.ts';
import { checkOutcome, checkText, LIMITS } from './input.ts';
import { NearAnswer } from './near-tier.ts';
import type { Attempt, Effect, Execution, Operation, Refusal, Settlement } from './operation.ts';
import type { EngineParts } from './parts.ts';
import { onLapseOf } from './policy.ts';
import {
  type KeptOutcome,
  NOT_RETAINED,
  type Outcome,
  type SettledRecord,
  type Step,
} from './record.ts';
import type { SwapResult } from './record-store.ts';
import { keepMsOf, settleRecord } from './transitions.ts';
import type { EpochMs } from './units.ts';

/** A result for the caller, and the answer to remember, if there is one. */
export interface Ended {
  readonly execution: Execution;
  readonly answer: NearAnswer | null;
}

/** A settlement that has an answer to keep. */
type Answered = Extract<Settlement, { readonly outcome: Outcome }>;

/** A settlement on its way into the store. */
export interface Settling {
  readonly settlement: Answered;
  readonly outcome: Outcome;
  readonly record: SettledRecord;
}

/** Throw this from an effect that cannot tell whether it happened: the record goes in doubt. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';
}

/** Throw this from an effect that has found nothing to do: the key is free again, whatever the kind of effect. */
export class NothingDone extends Error {
  override readonly name: string = 'NothingDone';
}

/**
 * From a granted claim to a settled record. `'lost'`: another attempt took over, or someone resolved the doubt
 * that we had become; its word counts, not ours.
 */
export async function runClaimed(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  claim: Claim,
): Promise<Ended | 'lost'> {
  if (mustStandStill(operation, claim)) {
    const stopped = await standStill(parts, operation, claim);
    if (stopped !== null) return stopped;
  }
  const running = startEffect(parts, operation, effect, claim);
  let settlement: Settlement;
  try {
    settlement = await running;
  } catch (error) {
    return afterThrow(parts, operation, claim, error);
  }
  parts.world.crashPoint?.('after-effect');
  return await settle(parts, operation, claim, settlement);
}

export function mustStandStill(operation: Operation, claim: Claim): boolean {
  return operation.signal?.aborted || !claim.isFresh;
}

export function startEffect(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  claim: Claim,
): Promise<Settlement> {
  claim.startHeartbeat();
  parts.world.crashPoint?.('before-effect');
  try {
    return Promise.resolve(effect(new RunningAttempt(parts, operation, claim)));
  } catch (error) {
    return Promise.reject(error);
  }
}

/** The last look before the effect: is the caller still there, is the claim still ours? */
async function standStill(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
): Promise<Ended | 'lost' | null> {
  let refusal: Refusal | null = null;
  if (!operation.signal?.aborted) {
    const cause = await renewStale(operation, claim);
    if (cause === 'lost') return 'lost';
    if (cause !== null) {
      const details = { retryAfterMs: 1_000, cause };
      refusal = refuse(parts, operation.id, 'store_unavailable', details);
    }
  }
  // The caller may have left while the claim was renewed.
  if (operation.signal?.aborted) refusal ??= refuse(parts, operation.id, 'deadline');
  if (refusal === null) return null;
  await giveBack(parts, claim, false);
  return { execution: refusal, answer: null };
}

/** `null`: the claim is fresh again. Otherwise why it is not. */
export async function renewStale(
  operation: Pick<Operation, 'policy'>,
  claim: Claim,
): Promise<'lost' | Error | null> {
  try {
    if ((await claim.renew()) === 'lost') return 'lost';
    if (claim.isFresh) return null;
  } catch (error) {
    return error as Error;
  }
  const { leaseMs } = operation.policy;
  return new OncewardError(
    'ONCE_STORE_UNAVAILABLE',
    `the store took longer to renew the claim than its lease of ${leaseMs} ms`,
  );
}

export function settle(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  settlement: Settlement,
): Promise<Ended | 'lost'> {
  if (settlement.as === 'released' || settlement.as === 'in_doubt') {
    return settleWithout(parts, claim, settlement);
  }
  const settling = settlingOf(parts, operation, claim, settlement);
  return settling === null
    ? settlePacked(parts, operation, claim, settlement)
    : writeSettled(parts, operation, claim, settling);
}

/** What is to be written of an answer that is kept as it is. `null`: it is to be packed first. */
export function settlingOf(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  settlement: Answered,
): Settling | null {
  const { maxOutcomeBytes, packAboveBytes } = operation.policy;
  const outcome = retained(settlement.outcome, maxOutcomeBytes);
  if (outcome.bytes.length > packAboveBytes) return null;
  return prepareSettling(parts, operation, claim, settlement, outcome, plainOutcome(outcome));
}

function prepareSettling(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  settlement: Answered,
  outcome: Outcome,
  kept: KeptOutcome,
): Settling {
  const keepMs = keepMsOf(operation.policy, settlement.as);
  const now = parts.clock.settlingNow();
  const record = settleRecord(claim.record, claim.fence, settlement.as, kept, keepMs, now);
  parts.world.crashPoint?.('before-settle');
  return { settlement, outcome, record };
}

async function settleWithout(
  parts: EngineParts,
  claim: Claim,
  settlement: Exclude<Settlement, Answered>,
): Promise<Ended> {
  if (settlement.as === 'in_doubt') {
    const recorded = await putInDoubt(parts, claim);
    return executed(claim, settlement, recorded);
  }
  await giveBack(parts, claim, settlement.mayHaveActed === true);
  return executed(claim, settlement, true);
}

async function settlePacked(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  settlement: Answered,
): Promise<Ended | 'lost'> {
  const { outcome } = settlement;
  const packed = await packOutcome(parts, outcome, operation.policy.packAboveBytes);
  const settling = prepareSettling(parts, operation, claim, settlement, outcome, packed);
  return writeSettled(parts, operation, claim, settling);
}

/** `tried`: how a first try at it ended. */
export async function writeSettled(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  settling: Settling,
  tried: (() => Promise<SwapResult>) | null = null,
): Promise<Ended | 'lost'> {
  const { settlement, outcome, record } = settling;
  try {
    if ((await claim.settle(record, tried)) === 'lost') return 'lost';
  } catch (error) {
    if (error instanceof OncewardError && error.code === 'ONCE_TOO_LARGE') {
      if (outcome === GONE) throw error;
      const less = prepareSettling(parts, operation, claim, settlement, GONE, GONE);
      return writeSettled(parts, operation, claim, less);
    }
    // The effect happened and its caller shall have the answer; the record is written when the store is back.
    settleLater(parts, claim, record);
    return executed(claim, settlement, false);
  }
  return settled(parts, claim, settling);
}

/** It is in the store. `isAwaited`: somebody else wants the answer as well. */
export function settled(
  parts: EngineParts,
  claim: Claim,
  { settlement, outcome, record }: Settling,
  isAwaited = true,
): Ended {
  parts.world.crashPoint?.('after-settle');
  const { id, attempt } = claim;
  parts.observe({ type: 'settled', id, state: record.state, attempt });
  const keptUntil = outcome.contentType === NOT_RETAINED ? null : record.keepUntil;
  const answer = isAwaited ? new NearAnswer(record, outcome) : null;
  return executed(claim, settlement, true, keptUntil, answer);
}

/**
 * Retention starts when the record is written, not when that was first tried: an answer that expired while the store
 * was away would let the effect run again. Which try it was that came through, only the store knows, so the near tier
 * learns the answer from there.
 */
function settleLater(parts: EngineParts, claim: Claim, record: SettledRecord): void {
  const { id, attempt } = claim;
  const keepMs = record.keepUntil - record.settledAt;
  parts.observe({ type: 'unrecorded', id });
  const taken = parts.late.add(async () => {
    const settledAt = parts.clock.settlingNow();
    const late = { ...record, settledAt, keepUntil: settledAt + keepMs };
    if ((await claim.settle(late)) === 'written') {
      parts.observe({ type: 'settled', id, state: record.state, attempt });
    }
    return true;
  });
  if (!taken) parts.observe({ type: 'late_settle_dropped', id });
}

export async function afterThrow(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  error: unknown,
): Promise<'lost'> {
  if (claim.lost) return 'lost';
  const { onThrow } = operation.policy;
  if (onThrow === 'in_doubt' || error instanceof OutcomeUnknown) {
    await putInDoubt(parts, claim);
  } else if (onThrow === 'reject') {
    const settlement = { as: 'rejected', outcome: describeError(error) } as const;
    if ((await settle(parts, operation, claim, settlement)) === 'lost') return 'lost';
  } else {
    await giveBack(parts, claim, !(error instanceof NothingDone));
  }
  throw error;
}

/** Frees the key. If the store cannot be told now, it is told later, or the lease lapses. */
export async function giveBack(
  parts: EngineParts,
  claim: Claim,
  mayHaveActed: boolean,
): Promise<void> {
  parts.world.crashPoint?.('before-release');
  const release = async () => {
    const written = await claim.release(mayHaveActed);
    if (written === 'written') parts.observe({ type: 'released', id: claim.id });
    return true;
  };
  await release().catch(() => parts.late.add(release));
}

async function putInDoubt(parts: EngineParts, claim: Claim): Promise<boolean> {
  const doubt = async () => {
    if ((await claim.doubt('outcome_unknown')) === 'written') {
      parts.observe({ type: 'in_doubt', id: claim.id, reason: 'outcome_unknown' });
    }
    return true;
  };
  try {
    return await doubt();
  } catch {
    parts.late.add(doubt);
    return false;
  }
}

const GONE: KeptOutcome = {
  contentType: NOT_RETAINED,
  codec: 0,
  size: 0,
  bytes: new Uint8Array(0),
};

/** An effect that has happened is recorded even when its answer is too long to keep. */
function retained(outcome: Outcome, maxBytes: number): Outcome {
  try {
    checkOutcome(outcome, maxBytes);
    return outcome;
  } catch {
    return GONE;
  }
}

export const ERROR_TYPE = 'application/vnd.onceward.error+json';

function describeError(error: unknown): Outcome {
  const thrown: Error & { code?: unknown } =
    error instanceof Error ? error : new Error(String(error));
  const { name, message, code } = thrown;
  const described = { name, message: message.slice(0, 2_000), code };
  return { contentType: ERROR_TYPE, bytes: new TextEncoder().encode(JSON.stringify(described)) };
}

function executed(
  claim: Claim,
  settlement: Settlement,
  recorded: boolean,
  keptUntil: EpochMs | null = null,
  answer: NearAnswer | null = null,
): Ended {
  const { attempt, fence } = claim;
  const execution = { kind: 'executed', settlement, attempt, fence, recorded, keptUntil } as const;
  return { execution, answer };
}

/** What the effect is given. Most effects look at little of it, so that what costs something is made when asked for. */
class RunningAttempt implements Attempt {
  readonly #parts: EngineParts;
  readonly #operation: Operation;
  readonly #claim: Claim;

  constructor(parts: EngineParts, operation: Operation, claim: Claim) {
    this.#parts = parts;
    this.#operation = operation;
    this.#claim = claim;
  }

  get id() {
    return this.#operation.id;
  }

  get number() {
    return this.#claim.attempt;
  }

  get fence() {
    return this.#claim.fence;
  }

  get signal() {
    return this.#claim.signal;
  }

  get downstreamKey() {
    return this.#parts.downstreamKey(this.id);
  }

  /** Needs no `this` of its caller. */
  get step(): Attempt['step'] {
    return (name, work) => runStep(this.#parts, this.#operation, this.#claim, name, work);
  }
}

async function runStep<T>(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  name: string,
  work: () => Promise<T>,
): Promise<T> {
  checkText('step name', name, LIMITS.stepName);
  const done = claim.record.steps.find((step) => step.name === name);
  if (done !== undefined) return JSON.parse(new TextDecoder().decode(done.bytes)) as T;
  if (claim.record.steps.length >= LIMITS.steps) {
    throw new OncewardError(
      'ONCE_INVALID_INPUT',
      `more than ${LIMITS.steps} steps in one operation`,
    );
  }
  const value = await work();
  const bytes = new TextEncoder().encode(JSON.stringify(value ?? null));
  if ((await saveStep(operation, claim, { name, bytes })) === 'lost') {
    throw new OncewardError('ONCE_FENCE_LOST', `another attempt took over during step ${name}`);
  }
  parts.world.crashPoint?.('after-step');
  return value;
}

/**
 * The step has happened. If that cannot be recorded and must not happen again, the whole operation is in doubt, even
 * where a throw of the effect itself means that nothing happened.
 */
async function saveStep(operation: Operation, claim: Claim, step: Step): Promise<WriteResult> {
  try {
    return await claim.saveStep(step);
  } catch (cause) {
    if (onLapseOf(operation.effect) === 'take_over') throw cause;
    throw new OutcomeUnknown(`step ${step.name} ran, but could not be recorded`, { cause });
  }
}
