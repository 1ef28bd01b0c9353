import { LIMITS } from '../limits.ts';
import { type Checked, refuse } from '../refusal.ts';

const DECIMAL = /^[1-9][0-9]*$/;
const LIMIT = 2n ** BigInt(LIMITS.amountBits);

/** An amount as it is kept: a positive integer in decimal. */
export function checkAmount(amount: unknown, place: string): Checked<string> {
  if (typeof amount === 'bigint') return checkDigits(amount > 0n ? amount.toString() : '', place);
  if (typeof amount === 'number') {
    // A larger number has already lost digits.
    return checkDigits(Number.isSafeInteger(amount) ? String(amount) : '', place);
  }
  if (typeof amount === 'string') return checkDigits(amount, place);
  return invalid(place);
}

function checkDigits(digits: string, place: string): Checked<string> {
  if (digits.length > LIMITS.amountDigits) return tooLarge(place);
  if (!DECIMAL.test(digits)) return invalid(place);
  if (digits.length === LIMITS.amountDigits && BigInt(digits) >= LIMIT) return tooLarge(place);
  return { ok: true, value: digits };
}

function invalid(place: string) {
  return refuse(
    'INVALID_FIELD',
    `${place} must be a positive whole number: a string of digits, a bigint, or a number below 2^53.`,
  );
}

function tooLarge(place: string) {
  return refuse('INVALID_FIELD', `${place} must be below 2^${LIMITS.amountBits}.`);
}
