import { OncewardError } from './errors.ts';
import type { Operation } from './operation.ts';
import { checkEffect, checkPolicy } from './policy.ts';
import type { OperationId, Outcome } from './record.ts';

/** The longest of everything a caller may hand in. Characters are UTF-16 code units. */
export const LIMITS = {
  scope: 512,
  key: 512,
  fingerprint: 128,
  contentType: 256,
  stepName: 64,
  steps: 100,
  reason: 1_000,
} as const;

export function checkOperation(operation: Omit<Operation, 'signal' | 'probe'>): void {
  checkId(operation.id);
  checkFingerprint(operation.fingerprint);
  checkEffect(operation.effect);
  checkPolicy(operation.policy);
  const { firstSentAt } = operation;
  if (firstSentAt !== undefined && !Number.isFinite(firstSentAt)) {
    fail(`firstSentAt is ${String(firstSentAt)}; give it in milliseconds since 1970`);
  }
}

export function checkId(id: OperationId): void {
  checkText('scope', id.scope, LIMITS.scope);
  checkText('key', id.key, LIMITS.key);
}

export function checkFingerprint(fingerprint: string): void {
  checkText('fingerprint', fingerprint, LIMITS.fingerprint);
}

export function checkOutcome(outcome: Outcome, maxBytes: number): void {
  if (outcome.contentType !== '') {
    checkText('outcome.contentType', outcome.contentType, LIMITS.contentType);
  }
  if (outcome.bytes.length > maxBytes) {
    throw new OncewardError(
      'ONCE_TOO_LARGE',
      `outcome has ${outcome.bytes.length} bytes; the limit (maxOutcomeBytes) is ${maxBytes}`,
    );
  }
}

/** Refuses what could not be stored and found again: nothing, too much, a NUL, half a surrogate pair. */
export function checkText(name: string, value: unknown, longest: number): void {
  if (typeof value !== 'string') fail(`${name} must be a string, not ${typeof value}`);
  if (value.length === 0) fail(`${name} is empty; give it 1 to ${longest} characters`);
  if (value.length > longest) {
    fail(`${name} has ${value.length} characters; the limit is ${longest}`);
  }
  if (value.includes('\0')) fail(`${name} contains U+0000, which is not allowed`);
  if (!value.isWellFormed()) fail(`${name} is not well-formed Unicode (a lone surrogate)`);
}

function fail(message: string): never {
  throw new OncewardError('ONCE_INVALID_INPUT', message);
}
