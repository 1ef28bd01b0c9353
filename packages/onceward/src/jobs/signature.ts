import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import { OncewardError } from '../engine/errors.ts';
import { type EpochMs, MINUTE, SECOND } from '../engine/units.ts';

/** The header that says who sent a request, and when: `t=<seconds>,v1=<hex>`. */
export const SIGNATURE_HEADER = 'onceward-signature';

/** A signature expires after this. Clocks of machines that talk to each other differ by less. */
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
  return parts !== null && isFresh(parts[1]!, now) && isMac(secret, parts[1]!, body, parts[2]!);
}

/**
 * The same for those who are to know the sender before they read what may be long: what is signed is the digest of the
 * body, which travels along, `t=<seconds>,b=<hex>,v1=<hex>`.
 */
export function signDigest(secret: string, body: string, now: EpochMs): string {
  const seconds = Math.floor(now / SECOND);
  const digest = digestOf(body);
  return `t=${seconds},b=${digest},v1=${macOf(secret, seconds, digest).toString('hex')}`;
}

/** The digest that the body must have; `null`: it was not signed with this secret, or too long ago. */
export function signedDigest(
  secret: string,
  header: string | undefined,
  now: EpochMs,
): string | null {
  const parts = /^t=(\d{1,12}),b=([0-9a-f]{64}),v1=([0-9a-f]{64})$/.exec(header ?? '');
  if (parts === null || !isFresh(parts[1]!, now)) return null;
  return isMac(secret, parts[1]!, parts[2]!, parts[3]!) ? parts[2]! : null;
}

export function digestOf(body: string): string {
  return hash('sha256', body, 'hex');
}

function isFresh(seconds: string, now: EpochMs): boolean {
  return Math.abs(now - Number(seconds) * SECOND) <= LONGEST_AGE_MS;
}

function isMac(secret: string, seconds: string, text: string, mac: string): boolean {
  return timingSafeEqual(macOf(secret, Number(seconds), text), Buffer.from(mac, 'hex'));
}

function macOf(secret: string, seconds: number, text: string): Buffer {
  return createHmac('sha256', secret).update(`${seconds}.${text}`).digest();
}
