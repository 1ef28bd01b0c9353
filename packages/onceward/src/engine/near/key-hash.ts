import { checksumText } from '../record/checksum.ts';

/** HalfSipHash under a secret: a caller that chooses keys cannot make them collide in a table. */
export class KeyHash {
  readonly #low: number;
  readonly #high: number;
  /** The hash of a key is asked for more than once in a row. */
  readonly #last = { key: '', salt: 0, hash: 0 };

  constructor(secret: string) {
    const half = secret.length >> 1;
    this.#low = checksumText(secret.slice(0, half), 1);
    this.#high = checksumText(secret.slice(half), 2);
    this.#last.hash = this.#halfSip('', 0);
  }

  /** 32 bits with a sign. Under another salt the same key hashes differently. */
  of(key: string, salt: number): number {
    const last = this.#last;
    if (last.key !== key || last.salt !== salt) {
      last.hash = this.#halfSip(key, salt);
      last.key = key;
      last.salt = salt;
    }
    return last.hash;
  }

  /** HalfSipHash-1-3, two UTF-16 code units a word. */
  #halfSip(key: string, salt: number): number {
    let v0 = this.#low;
    let v1 = this.#high ^ salt;
    let v2 = v0 ^ 0x6c796765;
    let v3 = v1 ^ 0x74656462;
    const last = key.length & ~1;
    // Three rounds without a word come after the last one.
    for (let i = 0; i <= last + 6; i += 2) {
      let word = 0;
      if (i < last) word = key.charCodeAt(i) | (key.charCodeAt(i + 1) << 16);
      else if (i === last) word = (key.length << 24) | (i < key.length ? key.charCodeAt(i) : 0);
      else if (i === last + 2) v2 ^= 0xff;
      v3 ^= word;
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      v0 ^= word;
    }
    return v1 ^ v3;
  }
}
