import { digest } from './merkle-list.ts';

/**
 * The identity of a key in a window: 128 bits of SHA-256 over the ledger's own secret, the scope and the key. It
 * stands for the key itself, so that no block is needed to compare two keys.
 *
 * A class with four small integers: the cheapest thing that V8 makes, and one is made for each transaction.
 */
export class KeyHash {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;

  constructor(a: number, b: number, c: number, d: number) {
    this.a = a;
    this.b = b;
    this.c = c;
    this.d = d;
  }
}

/** The length of the scope keeps `ab` + `c` and `a` + `bc` apart. */
export function hashKey(secret: string, scope: string, key: string): KeyHash {
  const text = digest(`K${secret}${scope.length}:${scope}${key}`);
  return new KeyHash(wordAt(text, 0), wordAt(text, 4), wordAt(text, 8), wordAt(text, 12));
}

function wordAt(text: string, at: number): number {
  const high = (text.charCodeAt(at) << 24) | (text.charCodeAt(at + 1) << 16);
  return high | (text.charCodeAt(at + 2) << 8) | text.charCodeAt(at + 3);
}
