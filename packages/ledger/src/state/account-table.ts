import { hash } from 'node:crypto';
import {
  type Account,
  type EntryPointer,
  type Memory,
  RECORD_BYTES,
  readAccount,
  readAsset,
  readBalance,
  readPointer,
  readVersion,
  writeAccount,
  writeChange,
} from './account-record.ts';
import {
  balancesLength,
  packChange,
  packWide,
  unpackChange,
  wideBalances,
} from './balance-page.ts';
import type { AccountPage, AccountPages } from './ledger-home.ts';
import { type Digest, MerkleList, type MerklePath } from './merkle-list.ts';

/** Accounts per leaf: a changed account costs the hash of its whole leaf. */
const LEAF_ACCOUNTS = 4;
const LEAF_MARK = 'A'.charCodeAt(0);
const LEAF_BYTES = 1 + LEAF_ACCOUNTS * RECORD_BYTES;
/** What is stored at once. */
const PAGE_LEAVES = 32;
const PAGE_BYTES = PAGE_LEAVES * LEAF_BYTES;
const PAGE_ACCOUNTS = PAGE_LEAVES * LEAF_ACCOUNTS;
const BALANCES_BYTES = balancesLength(PAGE_ACCOUNTS);
const SLAB_PAGES = 32;
const SLAB_ACCOUNTS = SLAB_PAGES * PAGE_ACCOUNTS;

export interface AccountProof {
  readonly accountCount: number;
  /** The records of the leaf that the account is in, in hex. */
  readonly leaf: string;
  readonly path: MerklePath;
}

/** An account while a batch is applied. It may be changed in place; `AccountTable.undoTo` takes changes back. */
export interface OpenAccount {
  readonly number: number;
  readonly assetCode: number;
  balance: bigint;
  version: number;
  last: EntryPointer;
}

/** A posting, with what was there before it. */
interface Change {
  readonly account: OpenAccount;
  readonly balance: bigint;
  readonly last: EntryPointer;
}

/**
 * All accounts, by number, as records in large pieces of memory: two cache misses to find one, nothing for the
 * garbage collector, and no cost that grows with their count but that of a deeper tree.
 */
export class AccountTable {
  readonly #slabs: Memory[] = [];
  readonly #tree = new MerkleList();
  #open = new Map<number, OpenAccount>();
  readonly #undo: Change[] = [];
  readonly #dirtyPages = new Set<number>();
  /** Those with accounts that were never saved. */
  readonly #newPages = new Set<number>();
  readonly #assetCodes = new Map<string, number>();
  #staging = Buffer.alloc(0);
  #codes = new Uint16Array(1_024);
  #count = 0;
  #sealedCount = 0;

  get count(): number {
    return this.#count;
  }

  /** Adds an account with nothing in it and returns its number. Numbers begin with 0. */
  add(category: string, asset: string): number {
    const number = this.#count;
    const last = { height: 0, position: 0, entry: 0 };
    this.#count += 1;
    this.#reserve(number);
    const memory = this.#slab(number);
    writeAccount(memory, placeOf(number), {
      number,
      asset,
      category,
      balance: 0n,
      version: 0,
      last,
    });
    this.#learnAsset(number, asset);
    return number;
  }

  /** The code of an asset that some account has; `undefined` if none has. Codes differ between restarts. */
  assetCode(asset: string): number | undefined {
    return this.#assetCodes.get(asset);
  }

  /** The code of an account's asset; `undefined` if there is no such account. */
  assetCodeAt(number: number): number | undefined {
    return number < this.#count ? this.#codes[number] : undefined;
  }

  /** An account to be changed within this batch. */
  open(number: number): OpenAccount | undefined {
    const known = this.#open.get(number);
    if (known !== undefined || !(number < this.#count)) return known;
    const memory = this.#slab(number);
    const at = placeOf(number);
    const account: OpenAccount = {
      number,
      assetCode: this.#codes[number] as number,
      balance: readBalance(memory, at),
      version: readVersion(memory, at),
      last: readPointer(memory, at),
    };
    this.#open.set(number, account);
    return account;
  }

  /** Changes the balance, in a way that can be undone until the next seal. */
  post(account: OpenAccount, balance: bigint, last: EntryPointer): void {
    this.#undo.push({ account, balance: account.balance, last: account.last });
    account.balance = balance;
    account.version += 1;
    account.last = last;
  }

  mark(): number {
    return this.#undo.length;
  }

  undoTo(mark: number): void {
    while (this.#undo.length > mark) {
      const { account, balance, last } = this.#undo.pop() as Change;
      account.balance = balance;
      account.last = last;
      account.version -= 1;
    }
  }

  /** As of the last seal. */
  read(number: number): Account | undefined {
    if (!(number < this.#sealedCount)) return undefined;
    return readAccount(this.#slab(number), placeOf(number));
  }

  /** Brings the changes of this batch into the records and the tree, and returns its top. */
  seal(): Digest {
    const changed = new Set<number>();
    for (let number = this.#sealedCount; number < this.#count; number += 1) {
      changed.add(Math.floor(number / LEAF_ACCOUNTS));
      this.#newPages.add(Math.floor(number / PAGE_ACCOUNTS));
    }
    for (const account of this.#open.values()) {
      writeChange(this.#slab(account.number), placeOf(account.number), account);
      changed.add(Math.floor(account.number / LEAF_ACCOUNTS));
    }
    this.#open = new Map();
    this.#undo.length = 0;
    this.#sealedCount = this.#count;
    for (const leaf of changed) {
      this.#tree.set(leaf, this.#hashLeaf(leaf));
      this.#dirtyPages.add(Math.floor(leaf / PAGE_LEAVES));
    }
    return this.#tree.top();
  }

  /** The top of the tree as of the last seal. */
  get top(): Digest {
    return this.#tree.top();
  }

  prove(number: number): AccountProof | undefined {
    if (!(number < this.#sealedCount)) return undefined;
    const leaf = Math.floor(number / LEAF_ACCOUNTS);
    const records = Buffer.from(this.#leafBytes(leaf).subarray(1)).toString('hex');
    return { accountCount: this.#sealedCount, leaf: records, path: this.#tree.path(leaf) };
  }

  /**
   * What changed since this was last called: whole pages where there are new accounts, and the changes alone of
   * all. Good until the next call: it lies in memory that is used again and again, since new memory for each would
   * trigger the garbage collector for nothing.
   */
  takeChanges(): AccountPages {
    const accountPages = new Map<number, Buffer>();
    const balancePages = new Map<number, Buffer>();
    for (const page of this.#newPages) accountPages.set(page, Buffer.from(this.#pageBytes(page)));
    const length = this.#dirtyPages.size * BALANCES_BYTES;
    if (this.#staging.length < length) this.#staging = Buffer.allocUnsafeSlow(length);
    let at = 0;
    for (const page of this.#dirtyPages) {
      balancePages.set(page, this.#packBalances(page, this.#staging.subarray(at)));
      at += BALANCES_BYTES;
    }
    this.#newPages.clear();
    this.#dirtyPages.clear();
    return { accountPages, balancePages };
  }

  #packBalances(page: number, target: Buffer): Buffer {
    const { bytes, view } = this.#slab(page * PAGE_ACCOUNTS);
    const to = new DataView(target.buffer, target.byteOffset, BALANCES_BYTES);
    const wide: Buffer[] = [];
    for (let account = 0; account < PAGE_ACCOUNTS; account += 1) {
      const at = placeOf(page * PAGE_ACCOUNTS + account);
      if (packChange(view, at, to, balancesLength(account))) continue;
      wide.push(packWide(bytes, at, account));
    }
    const fixed = target.subarray(0, BALANCES_BYTES);
    return wide.length === 0 ? fixed : Buffer.concat([fixed, ...wide]);
  }

  #unpackBalances(page: number, balances: Uint8Array): void {
    const { bytes, view } = this.#slab(page * PAGE_ACCOUNTS);
    const from = new DataView(balances.buffer, balances.byteOffset, balances.length);
    for (let account = 0; account < PAGE_ACCOUNTS; account += 1) {
      const at = placeOf(page * PAGE_ACCOUNTS + account);
      unpackChange(from, balancesLength(account), view, at);
    }
    for (const { account, high } of wideBalances(balances, PAGE_ACCOUNTS)) {
      bytes.set(high, placeOf(page * PAGE_ACCOUNTS + account));
    }
  }

  /** Takes back stored pages, in order; `count` is how many accounts they hold. Returns the top that they have. */
  restore(pages: Iterable<AccountPage>, count: number): Digest {
    const steps = this.restoring(pages, count);
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    return step.value;
  }

  /** The same in small steps, for those who have others to let run. */
  *restoring(pages: Iterable<AccountPage>, count: number): Generator<void, Digest> {
    let page = 0;
    for (const { records, balances } of pages) {
      this.#reserve(page * PAGE_ACCOUNTS);
      this.#pageBytes(page).set(records);
      if (balances !== undefined) this.#unpackBalances(page, balances);
      page += 1;
      yield;
    }
    this.#count = count;
    for (let number = 0; number < count; number += 1) {
      this.#learnAsset(number, readAsset(this.#slab(number), placeOf(number)));
      if (number % PAGE_ACCOUNTS === 0) yield;
    }
    this.#sealedCount = count;
    for (let leaf = 0; leaf * LEAF_ACCOUNTS < count; leaf += 1) {
      this.#tree.set(leaf, this.#hashLeaf(leaf));
      if (leaf % PAGE_LEAVES === 0) yield;
    }
    return this.#tree.top();
  }

  *all(): Iterable<Account> {
    for (let number = 0; number < this.#sealedCount; number += 1) {
      yield this.read(number) as Account;
    }
  }

  #learnAsset(number: number, asset: string): void {
    let code = this.#assetCodes.get(asset);
    if (code === undefined) {
      code = this.#assetCodes.size;
      this.#assetCodes.set(asset, code);
    }
    if (number >= this.#codes.length) {
      const codes = new Uint16Array(this.#codes.length * 2);
      codes.set(this.#codes);
      this.#codes = codes;
    }
    this.#codes[number] = code;
  }

  #reserve(number: number): void {
    const slab = Math.floor(number / SLAB_ACCOUNTS);
    if (slab < this.#slabs.length) return;
    const bytes = Buffer.alloc(SLAB_PAGES * PAGE_BYTES);
    for (let at = 0; at < bytes.length; at += LEAF_BYTES) bytes[at] = LEAF_MARK;
    this.#slabs.push({ bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) });
  }

  #slab(number: number): Memory {
    return this.#slabs[Math.floor(number / SLAB_ACCOUNTS)] as Memory;
  }

  #pageBytes(page: number): Buffer {
    const slab = Math.floor(page / SLAB_PAGES);
    const at = (page % SLAB_PAGES) * PAGE_BYTES;
    return (this.#slabs[slab] as Memory).bytes.subarray(at, at + PAGE_BYTES);
  }

  /** The leaf's mark and the records of those of its accounts that exist. */
  #leafBytes(leaf: number): Uint8Array {
    const first = leaf * LEAF_ACCOUNTS;
    const { bytes } = this.#slab(first);
    const at = placeOf(first);
    const accounts = Math.min(LEAF_ACCOUNTS, this.#sealedCount - first);
    // Not `subarray`: what it takes to make it a Buffer is more than the hash of it costs.
    return new Uint8Array(bytes.buffer, bytes.byteOffset + at - 1, 1 + accounts * RECORD_BYTES);
  }

  #hashLeaf(leaf: number): Digest {
    return hash('sha256', this.#leafBytes(leaf), 'binary');
  }
}

/** Where an account's record is in its slab. */
function placeOf(number: number): number {
  const leaf = Math.floor((number % SLAB_ACCOUNTS) / LEAF_ACCOUNTS);
  return leaf * LEAF_BYTES + 1 + (number % LEAF_ACCOUNTS) * RECORD_BYTES;
}
