import { createHmac, timingSafeEqual } from 'node:crypto';
import { OncewardError } from '../engine/errors.ts';
import { type EpochMs, MINUTE, SECOND } from '../engine/units.ts';

/** The header that says who sent a request, and when: `t=<seconds>,v1=<hex>`. */
export const SIGNATURE_HEADER = 'onceward-signature';

/** A signed request is worth nothing after this. Clocks of machines that talk to each other differ by less. */
const LONGEST_AGE_MS = 5 * MINUTE;
const SHORTEST_SECRET = 16;

export function checkSecret(name: string, secret: string): string {
  if (secret.length >= SHORTEST_SECRET) return secret;
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `${name} has ${secret.length} characters; it needs at least ${SHORTEST_SECRET}`,
  );
}

export function signBody(secret: string, body: string, now: EpochMs): string {
  const seconds = Math.floor(now / SECOND);
  return `t=${seconds},v1=${macOf(secret, seconds, body).toString('hex')}`;
}

/** True when the body was signed with this secret, not long ago. */
export function isSigned(
  secret: string,
  body: string,
  header: string | undefined,
  now: EpochMs,
): boolean {
  const parts = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/.exec(header ?? '');
  if (parts === null) return false;
  const seconds = Number(parts[1]);
  if (Math.abs(now - seconds * SECOND) > LONGEST_AGE_MS) return false;
  return timingSafeEqual(macOf(secret, seconds, body), Buffer.from(parts[2]!, 'hex'));
}

function macOf(secret: string, seconds: number, body: string): Buffer {
  return createHmac('sha256', secret).update(`${seconds}.${body}`).digest();
}
