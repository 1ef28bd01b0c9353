import type { CheckedKey, KeyProfile } from '../../keys/key-syntax.ts';
import { checkKey } from '../../keys/key-syntax.ts';
import type { KeyLines } from './request-facts.ts';

export type KeyReading =
  /** `sent` is the key as the client wrote it, less its quotes; `key` is its identity. */
  | { readonly kind: 'key'; readonly key: string; readonly sent: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'invalid'; readonly reason: string }
  | { readonly kind: 'conflict'; readonly reason: string };

const NONE: KeyReading = { kind: 'none' };

/** Reads the key out of its header lines and holds it to the syntax of the profile. */
export function readKey(lines: KeyLines, profile: KeyProfile): KeyReading {
  const { standard, alias } = lines;
  const first = standard ?? alias;
  if (first === undefined) return NONE;
  if (lines.repeated) {
    return { kind: 'conflict', reason: 'the key header came more than once; send one line' };
  }
  const reading = readValue(first, profile);
  if (standard === undefined || alias === undefined || reading.kind !== 'key') return reading;
  const other = readValue(alias, profile);
  if (other.kind !== 'key') return other;
  if (other.key === reading.key) return reading;
  return {
    kind: 'conflict',
    reason: 'Idempotency-Key and X-Idempotency-Key name different keys; send one of them',
  };
}

/** A structured string may be followed by parameters, which mean nothing here. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"[ \t]*(?:;.*)?$/;

function readValue(value: string, profile: KeyProfile): KeyReading {
  const trimmed = value.trim();
  let sent = trimmed;
  if (trimmed.startsWith('"')) {
    const match = QUOTED.exec(trimmed);
    if (match === null) {
      return { kind: 'invalid', reason: 'the key opens with a quote that is not closed properly' };
    }
    sent = (match[1] ?? '').replace(/\\(.)/g, '$1');
  }
  return judge(checkKey(profile, sent), sent);
}

/** The same for a key that did not come in a header. */
export function judgeKey(sent: string, profile: KeyProfile): KeyReading {
  return judge(checkKey(profile, sent), sent);
}

function judge(checked: CheckedKey, sent: string): KeyReading {
  return checked.ok
    ? { kind: 'key', key: checked.key, sent }
    : { kind: 'invalid', reason: checked.reason };
}
