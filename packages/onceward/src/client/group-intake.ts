import { type ClientWorld, mintKey } from './client-world.ts';
import { newStep, type Step } from './operation.ts';
import { invalid, type OutboxRequest, takeRequest } from './request-intake.ts';

/** One operation of a group, with what takes it back. */
export interface GroupStep extends OutboxRequest {
  /** Needed for every step but the last, which is never taken back: if it is done, the group is. */
  readonly undo?: OutboxRequest;
}

const MOST_STEPS = 100;

export function takeGroup(
  given: readonly GroupStep[],
  key: string | undefined,
  world: ClientWorld,
): Step[] {
  if (given.length < 1 || given.length > MOST_STEPS) {
    throw invalid(`a group has 1 to ${MOST_STEPS} steps, not ${given.length}`);
  }
  return given.map(({ undo, ...request }, i) => {
    if (undo === undefined && i < given.length - 1) {
      throw invalid(`step ${i} needs an undo: a later one may be refused`);
    }
    const back = undo && { key: mintKey(world), request: takeRequest(undo) };
    return newStep((i === 0 && key) || mintKey(world), takeRequest(request), back);
  });
}
