import { fillIn } from './fill-in.ts';
import {
  type FailedOperation,
  newStep,
  type Step,
  type StoredRequest,
  type WaitingOperation,
} from './operation.ts';
import { type Base, invalid, type OutboxRequest, takeRequest } from './request-intake.ts';
import { FRESH, fail, type Next, type Ways, type Why, withStep } from './transition.ts';

/** One operation of a group, with what takes it back. */
export interface GroupStep extends OutboxRequest {
  /** Needed for every step but the last, which is never taken back: if it is done, the group is. */
  readonly undo?: OutboxRequest;
}

/** What an outbox needs to know of groups; a page that queues none does not pay for it. */
export interface Groups {
  take(
    given: readonly GroupStep[],
    key: string | undefined,
    core: Base & Pick<Ways, 'mintKey'>,
  ): Step[];
  /** The request of the current step, with what earlier ones answered. Throws if they have not. */
  fillIn(request: StoredRequest, steps: readonly Step[]): StoredRequest;
  /** A step is done, forward or back. */
  done(operation: WaitingOperation, now: number): Next;
  refused(operation: WaitingOperation, why: Why, now: number): Next;
  cancel(operation: WaitingOperation, now: number): Next;
  /** The steps with which a group that is stuck goes on. */
  unstick(operation: FailedOperation, ways: Ways): Step[];
}

const MOST_STEPS = 100;
const CANCELLED = 'cancelled';

/**
 * Several operations that end all done or all undone. A group only ever moves: forward until a step is refused, then
 * back over the steps that are done, one at a time, each under its own key.
 *
 * ```ts
 * const outbox = new Outbox({ storage: indexedDbStorage(), groups });
 * await outbox.enqueueGroup([{ ...flight, undo: noFlight }, hotel]);
 * ```
 */
export const groups: Groups = {
  take(given, key, core) {
    if (given.length < 1 || given.length > MOST_STEPS) {
      throw invalid(`a group has 1 to ${MOST_STEPS} steps, not ${given.length}`);
    }
    return given.map(({ undo, ...request }, i) => {
      if (undo === undefined && i < given.length - 1) {
        throw invalid(`step ${i} needs an undo: a later one may be refused`);
      }
      const back = undo && { key: core.mintKey(), request: takeRequest(undo, core) };
      return newStep((i === 0 && key) || core.mintKey(), takeRequest(request, core), back);
    });
  },

  fillIn,

  done(operation, now) {
    const { cursor, cause } = operation;
    if (operation.direction === 'forward') {
      return { ...operation, ...FRESH, cursor: cursor + 1, wish: operation.wish };
    }
    const back = { ...operation, ...FRESH, steps: withStep(operation, { undone: true }) };
    if (cursor > 0) return { ...back, cursor: cursor - 1 };
    const code = cause === CANCELLED ? 'CANCELLED' : 'REFUSED';
    return fail(back, 'undone', { code, reason: cause ?? 'taken back' }, now);
  },

  refused(operation, why, now) {
    return operation.direction === 'undo'
      ? fail(operation, 'stuck', why, now)
      : turnBack(operation, why.reason);
  },

  cancel(operation, now) {
    return operation.direction === 'undo'
      ? { ...operation, wish: null, notBefore: now }
      : turnBack(operation, CANCELLED);
  },

  unstick({ steps, cursor }, ways) {
    return steps.map((step, i) =>
      i === cursor && step.undo ? { ...step, undo: { ...step.undo, key: ways.mintKey() } } : step,
    );
  },
};

/** Every step before the cursor is done, and every one of those has an undo: groups are checked for it. */
function turnBack(operation: WaitingOperation, cause: string): WaitingOperation {
  return { ...operation, ...FRESH, direction: 'undo', cursor: operation.cursor - 1, cause };
}
