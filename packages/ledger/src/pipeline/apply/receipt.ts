import { hashKey } from '../../state/key-hash.ts';
import type { KeyUse } from '../../state/key-window.ts';
import type { Machine } from '../machine.ts';

/** What is remembered of a sequenced write: which one it was, and 64 bits of the hash of its operations. */
export interface Receipt {
  readonly sequence: bigint;
  readonly height: number;
  readonly position: number;
  readonly print: string;
  /** Log time. */
  readonly at: number;
}

/** The print and the sequence, two words each. */
export const RECEIPT_WORDS = 4;
const PRINT_DIGITS = 16;
/** So few generations that a lookup in each of them stays cheap. */
const GENERATIONS = 16;

interface Write {
  readonly key: string;
  /** SHA-256 in hex. */
  readonly hash: string;
}

export function printOf({ hash }: Pick<Write, 'hash'>): string {
  return hash.slice(0, PRINT_DIGITS);
}

/** The receipt of the write that had this key, for as long as a client is remembered that wrote it last. */
export function findReceipt(machine: Machine, client: string, key: string): Receipt | undefined {
  const { receipts, settings, time } = machine;
  const hash = hashKey(settings.hash_key, client, key);
  const use = receipts.find(hash, time - settings.client_ttl_ms);
  return use && readReceipt(use);
}

export function addReceipt(
  machine: Machine,
  client: string,
  write: Write,
  { sequence, position }: { readonly sequence: bigint; readonly position: number },
): void {
  const { receipts, settings, time, height } = machine;
  const print = printOf(write);
  const half = PRINT_DIGITS / 2;
  const words = [
    Number.parseInt(print.slice(0, half), 16) | 0,
    Number.parseInt(print.slice(half), 16) | 0,
    Number(sequence >> 32n) | 0,
    Number(sequence & 0xffffffffn) | 0,
  ];
  const intervalMs = Math.ceil(settings.client_ttl_ms / GENERATIONS);
  const hash = hashKey(settings.hash_key, client, write.key);
  receipts.add(hash, time, intervalMs, { height, position }, words);
}

function readReceipt({ height, position, at, more }: KeyUse): Receipt {
  const [first, second, high, low] = more.map((word) => word >>> 0) as [
    number,
    number,
    number,
    number,
  ];
  const sequence = (BigInt(high) << 32n) | BigInt(low);
  return { sequence, height, position, print: hexOf(first) + hexOf(second), at };
}

function hexOf(word: number): string {
  return word.toString(16).padStart(8, '0');
}
