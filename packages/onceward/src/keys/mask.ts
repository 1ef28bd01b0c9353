import { sha256Hex } from './sha256.ts';

const LONGEST_PREFIX = 6;

/**
 * How a key is named in logs: up to 6 characters of it, `~`, and 8 hexadecimal digits of its SHA-256. The
 * same key always gives the same name, so lines can be joined; the key itself cannot be sent from it. Short
 * keys show at most a quarter of themselves.
 */
export function maskKey(key: string): string {
  const length = Math.min(LONGEST_PREFIX, Math.floor(key.length / 4));
  const prefix = key.slice(0, length).replace(/[^\x21-\x7e]/g, '?');
  return `${prefix}~${sha256Hex(key).slice(0, 8)}`;
}
