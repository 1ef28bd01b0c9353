import type { Settlement } from '../engine/operation.ts';
import type { SettledState } from '../engine/record.ts';
import { type Captured, type HttpAnswer, NO_BYTES } from './answer.ts';
import type { IdempotencyContext } from './idempotency-context.ts';
import { encodeAnswer, encodePassed } from './kept-answer.ts';
import type { HttpSettings } from './options.ts';

/** Answers below 500 that say "not now" or "not you": the same request may well succeed later. */
const TRANSIENT = new Set([401, 403, 408, 425, 429]);

const RELEASED: Settlement = { as: 'released' };
const BROKEN_OFF: Settlement = { as: 'released', mayHaveActed: true };
const IN_DOUBT: Settlement = { as: 'in_doubt' };

type KeepRules = Pick<
  HttpSettings<never>,
  'profile' | 'policy' | 'keep' | 'notRetained' | 'maxKeptBytes' | 'effect'
>;

/** What the handler's answer means for the record. */
export function settlementOf(
  rules: KeepRules,
  captured: Captured,
  context: IdempotencyContext,
): Settlement {
  if (context.isDoubtful) return IN_DOUBT;
  if (context.isReleased) return RELEASED;
  switch (captured.kind) {
    case 'whole':
      if (!isKept(rules, captured)) return unkept(rules, captured.status);
      return { as: stateOf(captured.status), outcome: encodeAnswer(captured) };
    case 'passed': {
      const { status, why } = captured;
      if (!isKept(rules, { status, headers: [], body: NO_BYTES })) return unkept(rules, status);
      if (rules.notRetained === 'rerun') return brokenOff(rules);
      return { as: stateOf(status), outcome: encodePassed(status, why) };
    }
    case 'broken':
      if (rules.policy.onThrow !== 'reject') return unkept(rules, 500);
      return { as: 'rejected', outcome: encodePassed(captured.status, 'stream') };
    case 'abandoned':
      return mayRepeat(rules) ? brokenOff(rules) : IN_DOUBT;
  }
}

/** The rule of the profile, which a hook may overrule. */
function isKept(rules: KeepRules, answer: HttpAnswer): boolean {
  const { status } = answer;
  const standard =
    rules.profile === 'sync' ||
    (status >= 500 ? rules.policy.onThrow === 'reject' : !TRANSIENT.has(status));
  return rules.keep === null ? standard : rules.keep(answer, standard);
}

/** A failure that is not kept is what a thrown error is to the engine. */
function unkept(rules: KeepRules, status: number): Settlement {
  if (status < 500) return RELEASED;
  return rules.policy.onThrow === 'in_doubt' ? IN_DOUBT : brokenOff(rules);
}

/**
 * The handler failed or never ended: how far it got is unknown. Where it must not be repeated, a failure
 * says that nothing happened, in mode `observe` too.
 */
function brokenOff(rules: KeepRules): Settlement {
  return mayRepeat(rules) ? BROKEN_OFF : RELEASED;
}

function mayRepeat({ effect }: KeepRules): boolean {
  return effect.kind !== 'external' || effect.onLapse === 'take_over';
}

function stateOf(status: number): SettledState {
  return status < 400 ? 'committed' : 'rejected';
}
