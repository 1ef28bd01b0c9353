import { StoreError } from '../../engine/errors.ts';
import type { OperationId } from '../../engine/record.ts';

/** In UTF-8, for scope and key each. */
export const MAX_NAME_BYTES = 1_024;

const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * An operation's id as bytes and as a seeded 64-bit hash. One object is loaded again for every call: it is read before
 * anyone else can load it, that is, before the next `await`.
 *
 * The seed is secret and differs between stores, so that no client can choose keys that collide. Where two ids
 * do collide, the store distinguishes them by their bytes.
 */
export class IdBytes {
  readonly bytes = Buffer.allocUnsafeSlow(2 * MAX_NAME_BYTES);
  scopeLength = 0;
  keyLength = 0;
  scopeHash = 0;
  hash1 = 0;
  hash2 = 0;
  #seed1 = 0;
  #seed2 = 0;

  seed(identity: Uint8Array): void {
    const view = new DataView(identity.buffer, identity.byteOffset);
    this.#seed1 = view.getUint32(0, true) ^ view.getUint32(4, true);
    this.#seed2 = view.getUint32(8, true) ^ view.getUint32(12, true);
  }

  get length(): number {
    return this.scopeLength + this.keyLength;
  }

  load(id: OperationId): void {
    this.scopeLength = this.#write('scope', id.scope, 0);
    this.keyLength = this.#write('key', id.key, this.scopeLength);
    this.#hash(this.bytes, 0, this.scopeLength, this.keyLength);
  }

  /** The same where its hashes are known. */
  loadHashed(id: OperationId, hash1: number, hash2: number, scopeHash: number): void {
    this.scopeLength = this.#write('scope', id.scope, 0);
    this.keyLength = this.#write('key', id.key, this.scopeLength);
    this.hash1 = hash1;
    this.hash2 = hash2;
    this.scopeHash = scopeHash;
  }

  /** Loads the hash of an id that stands in `bytes`, without copying it. */
  hash(bytes: Uint8Array, at: number, scopeLength: number, keyLength: number): void {
    this.scopeLength = scopeLength;
    this.keyLength = keyLength;
    this.#hash(bytes, at, scopeLength, keyLength);
  }

  /** Whether exactly this id stands in `bytes`. */
  stands(bytes: Buffer, at: number, scopeLength: number, keyLength: number): boolean {
    return (
      scopeLength === this.scopeLength &&
      keyLength === this.keyLength &&
      at + this.length <= bytes.length &&
      this.bytes.compare(bytes, at, at + this.length, 0, this.length) === 0
    );
  }

  #write(field: 'scope' | 'key', text: string, at: number): number {
    const { length } = text;
    if (length > MAX_NAME_BYTES) throw tooLong(field, length);
    const { bytes } = this;
    // Nearly every id is short ASCII, and this loop is then quicker than a call into the encoder.
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return this.#encode(field, text, at);
      bytes[at + index] = code;
    }
    return length;
  }

  #encode(field: 'scope' | 'key', text: string, at: number): number {
    if (LONE_SURROGATE.test(text)) {
      throw new StoreError(
        'ONCE_INVALID_INPUT',
        `The ${field} is not well-formed Unicode: it holds half of a surrogate pair. Encode binary ids as hex or base64.`,
        { applied: 'no' },
      );
    }
    const length = Buffer.byteLength(text);
    if (length > MAX_NAME_BYTES) throw tooLong(field, length);
    return this.bytes.write(text, at);
  }

  #hash(bytes: Uint8Array, at: number, scopeLength: number, keyLength: number): void {
    let h1 = this.#seed1;
    let h2 = this.#seed2;
    const middle = at + scopeLength;
    const end = middle + keyLength;
    for (let index = at; index < middle; index++) {
      const byte = bytes[index] as number;
      h1 = Math.imul(h1 ^ byte, 0x9e3779b1);
      h1 ^= h1 >>> 15;
      h2 = Math.imul(h2 ^ byte, 0x85ebca77);
      h2 = (h2 << 13) | (h2 >>> 19);
    }
    this.scopeHash = finish(h1 ^ scopeLength);
    h2 = Math.imul(h2 ^ scopeLength, 0xc2b2ae3d);
    for (let index = middle; index < end; index++) {
      const byte = bytes[index] as number;
      h1 = Math.imul(h1 ^ byte, 0x9e3779b1);
      h1 ^= h1 >>> 15;
      h2 = Math.imul(h2 ^ byte, 0x85ebca77);
      h2 = (h2 << 13) | (h2 >>> 19);
    }
    this.hash1 = finish(h1 ^ keyLength);
    this.hash2 = finish(h2);
  }
}

function finish(hash: number): number {
  let h = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function tooLong(field: string, length: number): StoreError {
  return new StoreError(
    'ONCE_INVALID_INPUT',
    `The ${field} has ${length} bytes, the store accepts ${MAX_NAME_BYTES}. Hash long ids before use.`,
    { applied: 'no' },
  );
}
