import { sha256Hex } from '../keys/sha256.ts';

/**
 * Checks what a ledger claims, with nothing of the ledger's own code: only SHA-256 and the written rules.
 *
 * - A hash is SHA-256 of a letter and a text: `H` a block's header, `T` a transaction, `B` a bucket of rows, `A`
 *   the records of up to four accounts, `N` the digests of up to 16 children, `X`, `R` and `S` the roots below.
 * - transactions = `X` count `:` top; rows = `R` bucket count `:` top; state = `S` account count `:` accounts `:` rows.
 * - A row belongs into the bucket that linear hashing gives for the first 32 bits of SHA-256 of its key.
 */
export interface LedgerHeader {
  readonly height: number;
  readonly previous: string;
  readonly transactions: string;
  readonly count: number;
  readonly state: string;
  readonly at: number;
  readonly term: number;
}

/** From the leaf up: the other children of each node, in order. */
export type ProofPath = readonly (readonly string[])[];

export interface LedgerStateParts {
  readonly accountCount: number;
  readonly accounts: string;
  readonly rows: string;
}

export interface AccountRecord {
  readonly number: number;
  readonly asset: string;
  readonly category: string;
  readonly balance: bigint;
  readonly version: number;
}

export type Verdict<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };

const ARITY = 16;
const LEAF_ACCOUNTS = 4;
const RECORD_HEX = 256;
const HEX = /^[0-9a-f]{64}$/;

export function hashBlockHeader(header: LedgerHeader): string {
  const { height, previous, transactions, count, state, at, term } = header;
  return hash('H', JSON.stringify({ height, previous, transactions, count, state, at, term }));
}

/** Whether headers follow each other without a gap. The caller must trust the hash of the last, or of the first. */
export function verifyChain(headers: readonly LedgerHeader[]): Verdict<string> {
  let before: LedgerHeader | undefined;
  for (const header of headers) {
    if (before !== undefined) {
      if (header.height !== before.height + 1) return no(`block ${header.height} leaves a gap`);
      if (header.previous !== hashBlockHeader(before))
        return no(`block ${header.height} is forged`);
      if (header.at < before.at) return no(`block ${header.height} is older than the one before`);
    } else if (header.height === 1 && header.previous !== '0'.repeat(64)) {
      return no('the first block has a predecessor');
    }
    before = header;
  }
  return before === undefined ? no('there is no block') : yes(hashBlockHeader(before));
}

/** Whether a transaction, as the text that the ledger gave, is in a block at that position. */
export function verifyTransaction(
  header: LedgerHeader,
  transaction: string,
  proof: { readonly position: number; readonly count: number; readonly path: ProofPath },
): Verdict<unknown> {
  const { position, count, path } = proof;
  if (count !== header.count) return no('the proof is about another number of transactions');
  const top = climb(hash('T', transaction), position, count, path);
  if (top === null) return no('the path does not fit the position');
  if (hash('X', `${count}:${top}`) !== header.transactions) return no('the hashes do not match');
  return parse(transaction);
}

/** What a row holds after a block, `undefined` if the ledger has no such row. */
export function verifyRow(
  header: LedgerHeader,
  row: string,
  parts: LedgerStateParts,
  proof: { readonly bucketCount: number; readonly bucket: string; readonly path: ProofPath },
): Verdict<unknown> {
  const { bucketCount, bucket, path } = proof;
  if (!(Number.isInteger(bucketCount) && bucketCount > 0)) return no('there are no buckets');
  const index = bucketOf(Number.parseInt(sha256Hex(row).slice(0, 8), 16), bucketCount);
  const top = climb(hash('B', bucket), index, bucketCount, path);
  if (top === null) return no('the path does not fit the row');
  if (hash('R', `${bucketCount}:${top}`) !== parts.rows) return no('the hashes do not match');
  if (!isStateOf(header, parts)) return no('the parts are not those of the block');
  const rows = parse<[string, unknown][]>(bucket);
  if (!rows.ok) return rows;
  const found = rows.value.filter(([key]) => key === row);
  return found.length > 1 ? no('the row is there twice') : yes(found[0]?.[1]);
}

/** An account as it is after a block. */
export function verifyAccount(
  header: LedgerHeader,
  number: number,
  parts: LedgerStateParts,
  proof: { readonly accountCount: number; readonly leaf: string; readonly path: ProofPath },
): Verdict<AccountRecord> {
  const { accountCount, leaf, path } = proof;
  if (accountCount !== parts.accountCount) return no('the proof is about other accounts');
  if (!(Number.isInteger(number) && number >= 0 && number < accountCount)) return no('no account');
  const index = Math.floor(number / LEAF_ACCOUNTS);
  const leaves = Math.ceil(accountCount / LEAF_ACCOUNTS);
  const held = Math.min(LEAF_ACCOUNTS, accountCount - index * LEAF_ACCOUNTS);
  if (!/^[0-9a-f]*$/.test(leaf) || leaf.length !== held * RECORD_HEX) return no('a record is cut');
  const top = climb(sha256Hex(fromHex(`41${leaf}`)), index, leaves, path);
  if (top === null) return no('the path does not fit the account');
  if (top !== parts.accounts || !isStateOf(header, parts)) return no('the hashes do not match');
  const at = (number % LEAF_ACCOUNTS) * RECORD_HEX;
  const record = readRecord(leaf.slice(at, at + RECORD_HEX));
  return record.number === number ? yes(record) : no('the record is of another account');
}

function isStateOf(header: LedgerHeader, { accountCount, accounts, rows }: LedgerStateParts) {
  return hash('S', `${accountCount}:${accounts}:${rows}`) === header.state;
}

/** The top that a leaf at `index` of a list leads to, or `null` if the path cannot be one of such a list. */
function climb(leaf: string, index: number, count: number, path: ProofPath): string | null {
  if (!(Number.isInteger(index) && index >= 0 && index < count)) return null;
  let own = leaf;
  let at = index;
  let width = count;
  for (const siblings of path) {
    const first = at - (at % ARITY);
    const children = Math.min(ARITY, width - first);
    if (width <= 1 || siblings.length !== children - 1) return null;
    if (!siblings.every((sibling) => HEX.test(sibling))) return null;
    const group = [...siblings.slice(0, at - first), own, ...siblings.slice(at - first)];
    own = sha256Hex(fromHex(`4e${group.join('')}`));
    at = first / ARITY;
    width = Math.ceil(width / ARITY);
  }
  return width === 1 ? own : null;
}

function bucketOf(address: number, bucketCount: number): number {
  let half = 1;
  while (half * 2 <= bucketCount) half *= 2;
  const wide = address % (2 * half);
  return wide < bucketCount ? wide : address % half;
}

function readRecord(hex: string): AccountRecord {
  const number = (from: number, bytes: number) =>
    BigInt(`0x${hex.slice(2 * from, 2 * (from + bytes))}`);
  const name = (from: number, bytes: number) => {
    const text = String.fromCharCode(...fromHex(hex.slice(2 * from, 2 * (from + bytes))));
    const end = text.indexOf('\0');
    return end < 0 ? text : text.slice(0, end);
  };
  return {
    balance: BigInt.asIntN(256, number(0, 32)),
    version: Number(number(32, 8)),
    asset: name(56, 24),
    category: name(80, 40),
    number: Number(number(120, 8)),
  };
}

function hash(mark: string, text: string): string {
  return sha256Hex(mark + text);
}

function fromHex(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2);
  for (let at = 0; at < bytes.length; at += 1) {
    bytes[at] = Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16);
  }
  return bytes;
}

function parse<T>(text: string): Verdict<T> {
  try {
    return yes(JSON.parse(text) as T);
  } catch {
    return no('what was proven is not JSON');
  }
}

function yes<T>(value: T): Verdict<T> {
  return { ok: true, value };
}

function no(reason: string): { readonly ok: false; readonly reason: string } {
  return { ok: false, reason };
}
