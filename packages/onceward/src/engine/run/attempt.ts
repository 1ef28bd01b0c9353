import { OncewardError } from '../errors.ts';
import { checkText, LIMITS } from '../input.ts';
import type { Attempt, Operation } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import { onLapseOf } from '../policy.ts';
import type { Step } from '../record.ts';
import type { Claim, WriteResult } from './claim.ts';

/** Throw this from an effect that cannot tell whether it happened: the record goes in doubt. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';
}

/** Throw this from an effect that has found nothing to do: the key is free again, whatever the kind of effect. */
export class NothingDone extends Error {
  override readonly name: string = 'NothingDone';
}

/** What the effect is given. Most effects use little of it, so that what costs something is made when asked for. */
export class RunningAttempt implements Attempt {
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
