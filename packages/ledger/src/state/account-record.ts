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

export function writeAccount(bytes: Buffer, at: number, account: Account): void {
  bytes.fill(0, at, at + RECORD_BYTES);
  bytes.write(account.asset, at + AT.asset, 'latin1');
  bytes.write(account.category, at + AT.category, 'latin1');
  writeCount(bytes, at + AT.number, account.number);
  writeChange(bytes, at, account);
}

/** Writes only what a journal entry changes. */
export function writeChange(
  bytes: Buffer,
  at: number,
  { balance, version, last }: Pick<Account, 'balance' | 'version' | 'last'>,
): void {
  writeBalance(bytes, at, balance);
  writeCount(bytes, at + AT.version, version);
  writeCount(bytes, at + AT.height, last.height);
  bytes.writeUInt32BE(last.position, at + AT.position);
  bytes.writeUInt32BE(last.entry, at + AT.entry);
}

export function readAccount(bytes: Buffer, at: number): Account {
  return {
    number: readCount(bytes, at + AT.number),
    asset: readName(bytes, at + AT.asset, LIMITS.assetLength),
    category: readName(bytes, at + AT.category, LIMITS.categoryLength),
    balance: readBalance(bytes, at),
    version: readCount(bytes, at + AT.version),
    last: readPointer(bytes, at),
  };
}

export function readBalance(bytes: Buffer, at: number): bigint {
  const sign = bytes.readInt32BE(at + LOW_WORD) >> 31;
  for (let word = at; word < at + LOW_WORD; word += 4) {
    if (bytes.readInt32BE(word) !== sign) return readWideBalance(bytes, at);
  }
  return bytes.readBigInt64BE(at + LOW_WORD);
}

export function readVersion(bytes: Buffer, at: number): number {
  return readCount(bytes, at + AT.version);
}

export function readPointer(bytes: Buffer, at: number): EntryPointer {
  return {
    height: readCount(bytes, at + AT.height),
    position: bytes.readUInt32BE(at + AT.position),
    entry: bytes.readUInt32BE(at + AT.entry),
  };
}

export function readAsset(bytes: Buffer, at: number): string {
  return readName(bytes, at + AT.asset, LIMITS.assetLength);
}

function readWideBalance(bytes: Buffer, at: number): bigint {
  const unsigned = BigInt(`0x${bytes.toString('hex', at, at + BALANCE_BYTES)}`);
  return BigInt.asIntN(8 * BALANCE_BYTES, unsigned);
}

function writeBalance(bytes: Buffer, at: number, balance: bigint): void {
  const low = BigInt.asIntN(64, balance);
  if (low === balance) {
    bytes.fill(low < 0n ? 0xff : 0, at, at + LOW_WORD);
    bytes.writeBigInt64BE(low, at + LOW_WORD);
    return;
  }
  const unsigned = BigInt.asUintN(8 * BALANCE_BYTES, balance);
  bytes.write(unsigned.toString(16).padStart(2 * BALANCE_BYTES, '0'), at, 'hex');
}

function writeCount(bytes: Buffer, at: number, count: number): void {
  bytes.writeUInt32BE(Math.floor(count / 2 ** 32), at);
  bytes.writeUInt32BE(count >>> 0, at + 4);
}

function readCount(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at) * 2 ** 32 + bytes.readUInt32BE(at + 4);
}

function readName(bytes: Buffer, at: number, limit: number): string {
  const end = bytes.indexOf(0, at);
  return bytes.toString('latin1', at, end < 0 ? at + limit : Math.min(end, at + limit));
}
