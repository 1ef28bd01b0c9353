import { OncewardError } from './errors.ts';
import type { Attempt, Execution, Probe, Refusal } from './operation.ts';
import { REFUSAL_CODES } from './operation.ts';
import type { EffectKind, Policy } from './policy.ts';
import { NOT_RETAINED, type OperationId, type Outcome } from './record.ts';
import { ERROR_TYPE } from './run/settlement.ts';
import type { EpochMs } from './units.ts';

/** What `once` needs to know. Scope, key and the kind of effect have no default: they are the caller's to say. */
export interface OnceOptions extends OperationId {
  readonly effect: EffectKind;
  /** What is asked for. The same key with another input is refused. Compared as JSON. */
  readonly input?: unknown;
  readonly policy?: Partial<Policy>;
  readonly probe?: Probe;
  readonly signal?: AbortSignal;
  /** Called with how the value came about, before it is returned. */
  readonly onResult?: (result: OnceResult) => void;
}

export interface OnceResult {
  /** The value is that of an earlier run. */
  readonly replayed: boolean;
  /**
   * False: the effect ran, but its record could not be written (yet). Should it never be, the next call with this key
   * meets a lost attempt.
   */
  readonly recorded: boolean;
  readonly attempt: number;
  /** Until when later calls get this value; `null` where it is not kept. */
  readonly keptUntil: EpochMs | null;
}

/** `null`: there is no value. */
export function resultOf(execution: Execution): OnceResult | null {
  if (execution.kind === 'refused') return null;
  const { attempt, keptUntil } = execution;
  const replayed = execution.kind === 'replayed';
  return { replayed, recorded: replayed || execution.recorded, attempt, keptUntil };
}

export type OnceEffect<T> = (attempt: Attempt) => Promise<T>;

const JSON_TYPE = 'application/json';

/**
 * The result as it is kept: as JSON. One that JSON cannot hold is not kept, and why stands in its place: the effect has
 * happened, so its record must be settled whatever it returned.
 */
export function toOutcome(value: unknown): Outcome {
  const encode = (text: string) => new TextEncoder().encode(text);
  try {
    return { contentType: JSON_TYPE, bytes: encode(value === undefined ? '' : toJson(value)) };
  } catch (error) {
    return { contentType: NOT_RETAINED, bytes: encode((error as Error).message) };
  }
}

function toJson(value: unknown): string {
  // JSON would make an empty object of these.
  const isEmptied = value instanceof Map || value instanceof Set;
  const text = isEmptied ? undefined : JSON.stringify(value);
  if (text !== undefined) return text;
  throw new TypeError(`JSON cannot hold a ${isEmptied ? value.constructor.name : typeof value}`);
}

/** The value that an execution stands for; everything that is not a value is thrown as a coded error. */
export function toValue<T>(execution: Execution): T {
  switch (execution.kind) {
    case 'refused':
      throw refusalError(execution);
    case 'executed':
      if ('outcome' in execution.settlement) return fromOutcome(execution.settlement.outcome);
      throw new OncewardError('ONCE_IN_DOUBT', 'the effect ended without an outcome');
    case 'replayed':
      if (execution.state === 'rejected') throw rejection(execution.outcome);
      return fromOutcome(execution.outcome);
  }
}

function fromOutcome<T>(outcome: Outcome): T {
  const text = new TextDecoder().decode(outcome.bytes);
  if (outcome.contentType === NOT_RETAINED && text !== '') {
    throw new OncewardError(
      'ONCE_NOT_RETAINED',
      `the effect ran once, but its result could not be kept (${text}); return what JSON can hold`,
    );
  }
  if (outcome.contentType === NOT_RETAINED) {
    throw new OncewardError(
      'ONCE_TOO_LARGE',
      'the effect ran once, but its result was longer than maxOutcomeBytes and was not kept',
    );
  }
  if (text === '' && outcome.contentType === JSON_TYPE) return undefined as T;
  return parsed(text, outcome.contentType) as T;
}

/** A probe or a person may have answered the doubt, with whatever they had. */
function parsed(text: string, contentType: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new OncewardError(
      'ONCE_NOT_RETAINED',
      `the effect happened, but its outcome (${contentType || 'none was given'}) is no JSON, so it has no value; a probe ` +
        'or a verdict must give an outcome in JSON to callers of once()',
      { cause },
    );
  }
}

function rejection(outcome: Outcome): OncewardError {
  const text = new TextDecoder().decode(outcome.bytes);
  const message =
    outcome.contentType === ERROR_TYPE ? (JSON.parse(text) as { message: string }).message : text;
  return new OncewardError('ONCE_REJECTED', message || 'it did not happen, and no reason was kept');
}

const EXPLANATIONS: Record<Refusal['reason'], string> = {
  mismatch: 'this key was used with another input; use a new key for a new operation',
  in_progress: 'the operation is still running; retry with the same key',
  in_doubt: 'it is not known whether the operation happened; it must be resolved first',
  expired: 'the key was first sent longer ago than it is kept, so it may have happened before',
  over_quota: 'too many operations are running in this process; retry with the same key',
  deadline: 'the caller had left before the effect began, so it did not run',
  outcome_unknown: 'the commit was not answered, so it may have happened; the same key will tell',
  rolled_back: 'the transaction was rolled back, so nothing of it happened',
  fence_lost: 'another attempt took over; retry with the same key to learn its answer',
  store_unavailable: 'the store did not answer, so this call ran nothing; retry with the same key',
};

function refusalError(refusal: Refusal): OncewardError {
  const { reason, cause, retryAfterMs } = refusal;
  return new OncewardError(REFUSAL_CODES[reason], EXPLANATIONS[reason], {
    ...(cause === undefined ? {} : { cause }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}
