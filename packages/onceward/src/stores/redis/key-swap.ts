import type { Revision } from '../../engine/record.ts';
import type { NextRecord } from '../../engine/record-store.ts';
import type { Argument, Command } from './redis-driver.ts';
import { encodeValue, REVISION_BYTES, valueLength, writeHead, writeValue } from './stored-value.ts';

/** What is to be written under a key, and instead of what. */
export interface KeySwap {
  readonly key: string;
  /** `null`: nothing is expected. */
  readonly expected: Revision | null;
  /** What is expected is the mark of a forgotten record. */
  readonly overMark: boolean;
  readonly next: NextRecord | null;
  /** Of what is written. */
  readonly revision: Revision;
  /** In milliseconds, or nothing. */
  readonly lifetime: string;
}

/** Claims a key with one plain command, which also shows the winner. */
export function claimCommand({ key, next, revision, lifetime }: KeySwap): Command {
  const value = encodeValue(next, revision);
  return lifetime === ''
    ? ['SET', key, value, 'NX', 'GET']
    : ['SET', key, value, 'NX', 'GET', 'PX', lifetime];
}

/** Claims several keys with one plain command: all of them, or none where one is taken. */
export function claimAllCommand(swaps: readonly KeySwap[]): Command {
  const command: [string, ...Argument[]] = ['MSETNX'];
  for (const { key, next, revision } of swaps) command.push(key, encodeValue(next, revision));
  return command;
}

/** That command knows no lifetimes, and would let the last of two claims on one key win beside the first. */
export function canClaimAll(swaps: readonly KeySwap[]): boolean {
  const keys = new Set<string>();
  for (const { key, lifetime } of swaps) {
    if (lifetime !== '') return false;
    keys.add(key);
  }
  return keys.size === swaps.length;
}

const FRAME = REVISION_BYTES + 4 + 1;

/** The argument of the swap script: see `swap.lua.ts`. */
export function packSwaps(swaps: readonly KeySwap[]): Buffer {
  let total = 0;
  for (const swap of swaps) total += packedLength(swap);
  const packed = Buffer.allocUnsafe(total);
  let at = 0;
  for (const { expected, overMark, next, revision, lifetime } of swaps) {
    const length = valueLength(next);
    if (expected === null) packed.fill(0xff, at, at + REVISION_BYTES);
    else writeHead(packed, at, expected, overMark);
    packed.writeUInt32BE(length, at + REVISION_BYTES);
    packed[at + FRAME - 1] = lifetime.length;
    at += FRAME;
    writeValue(packed, at, next, revision);
    at += length;
    packed.write(lifetime, at, 'latin1');
    at += lifetime.length;
  }
  return packed;
}

export function packedLength({ next, lifetime }: KeySwap): number {
  return FRAME + valueLength(next) + lifetime.length;
}
