import { cryptoBytes, type RandomBytes, toHex } from './random-bytes.ts';

/** A UUID of version 4. Fits the profiles `http`, `sync`, `ledger` and `stripe`. */
export function mintUuid(randomBytes: RandomBytes = cryptoBytes): string {
  const bytes = randomBytes(16);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return toHex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_DIGITS = 10;
const RANDOM_DIGITS = 16;
const RANDOM_RANGE = 0x1_0000_0000_0000_0000_0000n;

export interface UlidSource {
  readonly now?: () => number;
  readonly randomBytes?: RandomBytes;
}

/**
 * Makes ULIDs that sort in the order they were minted, also within one millisecond and when the clock steps
 * back: the random part is then counted up instead of drawn again.
 */
export function ulidMinter(source: UlidSource = {}): () => string {
  const now = source.now ?? Date.now;
  const randomBytes = source.randomBytes ?? cryptoBytes;
  let lastMs = -1;
  let tail = 0n;
  return () => {
    const ms = Math.floor(now());
    if (ms > lastMs) {
      lastMs = ms;
      tail = BigInt(`0x${toHex(randomBytes(10))}`);
    } else {
      tail += 1n;
      if (tail === RANDOM_RANGE) {
        lastMs += 1;
        tail = 0n;
      }
    }
    return encode(BigInt(lastMs), TIME_DIGITS) + encode(tail, RANDOM_DIGITS);
  };
}

/** A ULID from the shared minter of this process. Fits the profiles `http`, `ledger` and `stripe`. */
export const mintUlid: () => string = /* @__PURE__ */ ulidMinter();

function encode(value: bigint, digits: number): string {
  let text = '';
  for (let left = value, count = 0; count < digits; count += 1, left >>= 5n) {
    text = CROCKFORD.charAt(Number(left & 31n)) + text;
  }
  return text;
}
