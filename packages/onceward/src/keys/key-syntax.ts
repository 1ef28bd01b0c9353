import { formatJobKey, parseJobKey } from './job-key.ts';

/** The named sets of rules a key can be held to. */
export type KeyProfile = 'http' | 'sync' | 'jobs' | 'ledger' | 'stripe';

export type CheckedKey =
  /** `key` is the identity: the form under which equal keys are equal. */
  | { readonly ok: true; readonly key: string }
  /** `reason` is a sentence fit for the caller. It never repeats the key. */
  | { readonly ok: false; readonly reason: string };

export const MAX_HTTP_KEY_LENGTH = 200;
export const MAX_LEDGER_KEY_LENGTH = 100;
const MAX_STRIPE_KEY_LENGTH = 255;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{12}$/i;

/**
 * Holds a key to the syntax of its profile.
 *
 * - `http`: 1 to 200 of `A-Z a-z 0-9 - _`. Case matters.
 * - `sync`: a UUID of version 4 with the RFC variant. Hexadecimal digits of a UUID have no case, so the
 *   identity is lower-cased: a client that prints its UUIDs in capitals on one platform still matches itself.
 * - `jobs`: `{client_id}:{sequence}:{nonce}`, see `parseJobKey`; the nonce is lower-cased likewise.
 * - `ledger`: 1 to 100 printable ASCII characters, no space at either end (header fields would lose it).
 * - `stripe`: the same, up to 255.
 */
export function checkKey(profile: KeyProfile, key: string): CheckedKey {
  if (key.length === 0) return refuse('the key is empty');
  switch (profile) {
    case 'http':
      return checkHttpKey(key);
    case 'sync':
      return checkSyncKey(key);
    case 'jobs': {
      const parsed = parseJobKey(key);
      return parsed.ok ? { ok: true, key: formatJobKey(parsed.parts) } : parsed;
    }
    case 'ledger':
      return checkPrintableKey(key, MAX_LEDGER_KEY_LENGTH);
    case 'stripe':
      return checkPrintableKey(key, MAX_STRIPE_KEY_LENGTH);
  }
}

function checkHttpKey(key: string): CheckedKey {
  if (key.length > MAX_HTTP_KEY_LENGTH) return tooLong(key, MAX_HTTP_KEY_LENGTH);
  if (!/^[A-Za-z0-9_-]+$/.test(key)) {
    return refuse(
      'the key holds characters other than A-Z a-z 0-9 - _ (base64 keys need the URL-safe form, no =)',
    );
  }
  return { ok: true, key };
}

function checkSyncKey(key: string): CheckedKey {
  const match = UUID.exec(key);
  if (match === null) {
    return refuse('the key is not a UUID of the form xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx');
  }
  const [, version, variant] = match;
  if (version !== '4') return refuse('the key is a UUID, but not of version 4');
  if (!/[89ab]/i.test(variant ?? '')) {
    return refuse('the key is a UUID whose variant digit is not one of 8, 9, a, b');
  }
  return { ok: true, key: key.toLowerCase() };
}

function checkPrintableKey(key: string, limit: number): CheckedKey {
  if (key.length > limit) return tooLong(key, limit);
  if (!/^[\x20-\x7e]+$/.test(key)) {
    return refuse('the key holds characters that are not printable ASCII');
  }
  if (key !== key.trim()) return refuse('the key begins or ends with a space');
  return { ok: true, key };
}

function tooLong(key: string, limit: number): CheckedKey {
  return refuse(`the key has ${key.length} characters; the limit is ${limit}`);
}

function refuse(reason: string): CheckedKey {
  return { ok: false, reason };
}
