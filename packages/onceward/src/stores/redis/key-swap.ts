import type { Revision } from '../../engine/record.ts';
import type { NextRecord } from '../../engine/record-store.ts';
import type { Argument, Command } from './redis-driver.ts';
import { encodeValue, REVISION_BYTES, valueLength, writeHead } from './stored-value.ts';

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

/** Expected revision and the length of the lifetime. */
const FRAME = REVISION_BYTES + 1;

/** The arguments of the swap script: see `swap.lua.ts`. */
export function swapArguments(swaps: readonly KeySwap[]): Buffer[] {
  let total = 0;
  for (const { lifetime } of swaps) total += FRAME + lifetime.length;
  const frames = Buffer.allocUnsafe(total);
  const args: Buffer[] = [frames];
  let at = 0;
  for (const { expected, overMark, next, revision, lifetime } of swaps) {
    if (expected === null) frames.fill(0xff, at, at + REVISION_BYTES);
    else writeHead(frames, at, expected, overMark);
    frames[at + FRAME - 1] = lifetime.length;
    frames.write(lifetime, at + FRAME, 'latin1');
    at += FRAME + lifetime.length;
    args.push(encodeValue(next, revision));
  }
  return args;
}

/** How many bytes it takes on the wire, without the protocol's. */
export function sizeOf({ key, next, lifetime }: KeySwap): number {
  return key.length + FRAME + lifetime.length + valueLength(next);
}
