import { LEDGER_REFUSALS, type LedgerRefusalCode } from '../../refusals/ledger-refusals.ts';
import type { LedgerCallError } from './ledger-call-error.ts';
import type { WriterResult } from './writer-result.ts';

/** Statuses that any send of the same write would get: it has to end for those behind it. */
const SAYS_ENOUGH = new Set(['invalid_argument', 'failed_precondition', 'unproven']);

/** Statuses of calls that are refused before the ledger does anything. */
const NOTHING_DONE = new Set(['invalid_argument', 'permission_denied']);

/**
 * Whether a refused call is the end of its write. One that may have been committed goes on until the ledger says
 * what became of it: a refusal of a proxy, or of the current credential, says nothing about the earlier attempt.
 */
export function isFinal(error: LedgerCallError, isInDoubt: boolean): boolean {
  if (error.isTransient) return false;
  return !isInDoubt || SAYS_ENOUGH.has(error.status) || refusalIn(error) !== null;
}

/**
 * The end of a write whose call was refused. A refused call may not have been held against the keys that the ledger
 * knows, so it says nothing about an earlier attempt.
 */
export function endOf(error: LedgerCallError, isInDoubt: boolean): WriterResult {
  const { status, message } = error;
  const refusal = refusalIn(error);
  const first = refusal === null ? happenedAfter(status) : LEDGER_REFUSALS[refusal].happened;
  const happened = isInDoubt ? 'unknown' : first;
  return { ok: false, code: refusal ?? status, message, happened };
}

/** A code that is not in the table is that of a newer ledger: the outcome is unknown. */
export function happenedOf(code: string): 'no' | 'unknown' {
  return isRefusal(code) ? LEDGER_REFUSALS[code].happened : 'unknown';
}

function happenedAfter(status: string): 'no' | 'unknown' {
  return NOTHING_DONE.has(status) ? 'no' : 'unknown';
}

/** The ledger's own code, with which the message of a refused call begins. */
function refusalIn({ message }: LedgerCallError): LedgerRefusalCode | null {
  const [, code = ''] = /^([A-Z_]+): /.exec(message) ?? [];
  return isRefusal(code) ? code : null;
}

function isRefusal(code: string): code is LedgerRefusalCode {
  return Object.hasOwn(LEDGER_REFUSALS, code);
}
