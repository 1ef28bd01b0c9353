import { LIMITS } from '../limits.ts';

/**
 * An account as the bytes that are hashed, stored and shown in proofs. Big-endian, so that they read well in hex.
 *
 *   0 balance, 32 bytes, two's complement      48 last entry: position 4, entry 4
 *  32 version 8                                 56 asset, 24 bytes of ASCII, padded with zeros
 *  40 last entry: height 8                      80 category, 40 bytes alike
 *                                              120 number 8
 */
export const RECORD_BYTES = 128;

const AT = {
  version: 32,
  height: 40,
  position: 48,
  entry: 52,
  asset: 56,
  category: 80,
  number: 120,
};
const BALANCE_BYTES = 32;
const LOW_WORD = BALANCE_BYTES - 8;

/** Balances stay below this, either way; so sums of any number of accounts that are kept fit as well. */
export const BALANCE_LIMIT = 2n ** 255n;

/** Where the last journal entry of an account is; the height is 0 while there is none. */
export interface EntryPointer {
  readonly height: number;
  readonly position: number;
  readonly entry: number;
}

export interface Account {
  readonly number: number;
  readonly asset: string;
  readonly category: string;
  readonly balance: bigint;
  /** How often the balance has changed. */
  readonly version: number;
  readonly last: EntryPointer;
}

/** Memory in both forms: text and runs of bytes are quick in one, numbers in the other. */
export interface Memory {
  readonly bytes: Buffer;
  readonly view: DataView;
}

export function writeAccount({ bytes, view }: Memory, at: number, account: Account): void {
  bytes.fill(0, at, at + RECORD_BYTES);
  bytes.write(account.asset, at + AT.asset, 'latin1');
  bytes.write(account.category, at + AT.category, 'latin1');
  writeCount(view, at + AT.number, account.number);
  writeChange({ bytes, view }, at, account);
}

/** Writes only what a journal entry changes. */
export function writeChange(
  memory: Memory,
  at: number,
  { balance, version, last }: Pick<Account, 'balance' | 'version' | 'last'>,
): void {
  const { view } = memory;
  writeBalance(memory, at, balance);
  writeCount(view, at + AT.version, version);
  writeCount(view, at + AT.height, last.height);
  view.setUint32(at + AT.position, last.position);
  view.setUint32(at + AT.entry, last.entry);
}

export function readAccount(memory: Memory, at: number): Account {
  const { bytes, view } = memory;
  return {
    number: readCount(view, at + AT.number),
    asset: readName(bytes, at + AT.asset, LIMITS.assetLength),
    category: readName(bytes, at + AT.category, LIMITS.categoryLength),
    balance: readBalance(memory, at),
    version: readCount(view, at + AT.version),
    last: readPointer(memory, at),
  };
}

export function readBalance({ bytes, view }: Memory, at: number): bigint {
  const sign = view.getInt32(at + LOW_WORD) >> 31;
  for (let word = at; word < at + LOW_WORD; word += 4) {
    if (view.getInt32(word) !== sign) return readWideBalance(bytes, at);
  }
  return view.getBigInt64(at + LOW_WORD);
}

export function readVersion({ view }: Memory, at: number): number {
  return readCount(view, at + AT.version);
}

export function readPointer({ view }: Memory, at: number): EntryPointer {
  return {
    height: readCount(view, at + AT.height),
    position: view.getUint32(at + AT.position),
    entry: view.getUint32(at + AT.entry),
  };
}

export function readAsset({ bytes }: Memory, at: number): string {
  return readName(bytes, at + AT.asset, LIMITS.assetLength);
}

function readWideBalance(bytes: Buffer, at: number): bigint {
  const unsigned = BigInt(`0x${bytes.toString('hex', at, at + BALANCE_BYTES)}`);
  return BigInt.asIntN(8 * BALANCE_BYTES, unsigned);
}

function writeBalance({ bytes, view }: Memory, at: number, balance: bigint): void {
  const low = BigInt.asIntN(64, balance);
  if (low === balance) {
    const sign = low < 0n ? -1 : 0;
    for (let word = at; word < at + LOW_WORD; word += 4) view.setInt32(word, sign);
    view.setBigInt64(at + LOW_WORD, low);
    return;
  }
  const unsigned = BigInt.asUintN(8 * BALANCE_BYTES, balance);
  bytes.write(unsigned.toString(16).padStart(2 * BALANCE_BYTES, '0'), at, 'hex');
}

function writeCount(view: DataView, at: number, count: number): void {
  view.setUint32(at, Math.floor(count / 2 ** 32));
  view.setUint32(at + 4, count >>> 0);
}

function readCount(view: DataView, at: number): number {
  return view.getUint32(at) * 2 ** 32 + view.getUint32(at + 4);
}

function readName(bytes: Buffer, at: number, limit: number): string {
  const end = bytes.indexOf(0, at);
  return bytes.toString('latin1', at, end < 0 ? at + limit : Math.min(end, at + limit));
}
