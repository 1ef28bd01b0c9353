import { existsSync } from 'node:fs';
import { mkdir, open as openFile, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Database, open, type RootDatabase } from 'lmdb';
import { StoreError } from 'onceward';
import type { KeyRun } from './key-window.ts';
import type { AccountPage, Checkpoint, CheckpointMeta, LedgerHome } from './ledger-home.ts';

/** A checksum, and zeros so that the words behind it are aligned. */
const RUN_HEAD_BYTES = 8;
const SNAPSHOT = /^snapshot-(\d+)$/;

/**
 * The home on disk: two LMDB environments, one for the state and one for the blocks. Both are synced as they
 * commit, the blocks first. A snapshot is a compacted copy of the state alone.
 */
export class LmdbHome implements LedgerHome {
  readonly #directory: string;
  readonly #history: RootDatabase;
  readonly #blocks: Database<Buffer, number>;
  #state: StateDatabases;
  #snapshotHeight: number;

  private constructor(directory: string, snapshotHeight: number) {
    this.#directory = directory;
    this.#snapshotHeight = snapshotHeight;
    this.#history = openEnvironment(join(directory, 'history'));
    this.#blocks = this.#history.openDB({ name: 'blocks', encoding: 'binary' });
    this.#state = new StateDatabases(join(directory, 'state'));
  }

  static async open(directory: string): Promise<LmdbHome> {
    await mkdir(directory, { recursive: true });
    const heights: number[] = [];
    for (const name of await readdir(directory)) {
      const match = SNAPSHOT.exec(name);
      if (match) heights.push(Number(match[1]));
      else if (name.endsWith('.new')) await rm(join(directory, name), { recursive: true });
    }
    const latest = Math.max(0, ...heights);
    for (const height of heights) {
      // A crash came between a new snapshot and the end of the one before.
      if (height < latest) await rm(snapshotFolder(directory, height), { recursive: true });
    }
    try {
      return new LmdbHome(directory, latest);
    } catch (cause) {
      throw new StoreError(
        'ONCE_STORE_UNAVAILABLE',
        `Cannot open the ledger's state in ${directory}.`,
        {
          cause,
          applied: 'no',
        },
      );
    }
  }

  meta(): CheckpointMeta | undefined {
    return this.#state.meta();
  }

  accountPages(): Iterable<AccountPage> {
    const { accounts, balances } = this.#state;
    return accounts
      .getRange({})
      .map(({ key, value }) => ({ records: value, balances: balances.get(key) }));
  }

  rowPages(): Iterable<string> {
    return this.#state.rows.getRange({}).map(({ value }) => value);
  }

  rowPage(page: number): string | undefined {
    return this.#state.rows.get(page);
  }

  *keyRuns(): Iterable<KeyRun> {
    for (const { key, value } of this.#state.runs.getRange({})) yield decodeRun(key[0], value);
  }

  block(height: number): Buffer | undefined {
    return this.#blocks.getBinaryFast(height);
  }

  firstBlock(): number | undefined {
    const [first] = this.#blocks.getKeys({ limit: 1 });
    return first;
  }

  async save(checkpoint: Checkpoint): Promise<void> {
    try {
      await this.#saveBlocks(checkpoint);
      await this.#state.save(checkpoint);
    } catch (cause) {
      throw new StoreError(
        'ONCE_STORE_FAILED',
        `Saving the ledger's state in ${this.#directory} failed: ${(cause as Error).message}.`,
        { cause },
      );
    }
  }

  async #saveBlocks({ blocks, firstBlock }: Checkpoint): Promise<void> {
    const old = [...this.#blocks.getKeys({ end: firstBlock })];
    await this.#history.batch(() => {
      for (const [height, bytes] of blocks) void this.#blocks.put(height, bytes);
      for (const height of old) void this.#blocks.remove(height);
    });
    await this.#history.flushed;
  }

  async snapshot(): Promise<number> {
    const height = this.meta()?.height ?? 0;
    const folder = snapshotFolder(this.#directory, height);
    if (height === this.#snapshotHeight) return height;
    await mkdir(`${folder}.new`);
    await this.#state.environment.backup(`${folder}.new`, true);
    await syncFile(join(`${folder}.new`, 'data.mdb'));
    await rename(`${folder}.new`, folder);
    await syncFile(this.#directory);
    const before = snapshotFolder(this.#directory, this.#snapshotHeight);
    this.#snapshotHeight = height;
    await rm(before, { recursive: true, force: true });
    return height;
  }

  snapshotHeight(): number {
    return this.#snapshotHeight;
  }

  /** Whenever a crash comes: what is left is the old state, none, or all of the copy. */
  async restoreSnapshot(): Promise<void> {
    const folder = join(this.#directory, 'state');
    const copy = snapshotFolder(this.#directory, this.#snapshotHeight);
    const isThere = existsSync(copy);
    if (isThere) await copyEnvironment(copy, `${folder}.new`);
    await this.#state.environment.close();
    await rm(folder, { recursive: true, force: true });
    if (isThere) await rename(`${folder}.new`, folder);
    await syncFile(this.#directory);
    this.#state = new StateDatabases(folder);
  }

  async close(): Promise<void> {
    await this.#state.environment.close();
    await this.#history.close();
  }
}

const TEXT_BY_NUMBER = { keyEncoding: 'uint32', encoding: 'string' } as const;
const BYTES_BY_NUMBER = { keyEncoding: 'uint32', encoding: 'binary' } as const;

class StateDatabases {
  readonly environment: RootDatabase;
  readonly accounts: Database<Buffer, number>;
  readonly balances: Database<Buffer, number>;
  readonly rows: Database<string, number>;
  /** By the end of the stretch, then by the height of the checkpoint. */
  readonly runs: Database<Buffer, [number, number]>;
  readonly #metas: Database<CheckpointMeta, string>;

  constructor(path: string) {
    this.environment = openEnvironment(path);
    this.accounts = this.environment.openDB({ name: 'accounts', ...BYTES_BY_NUMBER });
    this.balances = this.environment.openDB({ name: 'balances', ...BYTES_BY_NUMBER });
    this.rows = this.environment.openDB({ name: 'rows', ...TEXT_BY_NUMBER });
    this.runs = this.environment.openDB({ name: 'keys', encoding: 'binary' });
    this.#metas = this.environment.openDB({ name: 'meta', encoding: 'json' });
  }

  meta(): CheckpointMeta | undefined {
    return this.#metas.get('checkpoint');
  }

  async save(checkpoint: Checkpoint): Promise<void> {
    const { height } = checkpoint.meta;
    const worthless = [...this.runs.getKeys({ end: [checkpoint.keysSince, 0] })];
    await this.environment.batch(() => {
      for (const [page, bytes] of checkpoint.accountPages) {
        void this.accounts.put(page, bytes as Buffer);
      }
      for (const [page, bytes] of checkpoint.balancePages) {
        void this.balances.put(page, bytes as Buffer);
      }
      for (const [page, text] of checkpoint.rowPages) void this.rows.put(page, text);
      for (const run of checkpoint.keyRuns) void this.runs.put([run.until, height], encodeRun(run));
      for (const run of worthless) void this.runs.remove(run);
      void this.#metas.put('checkpoint', checkpoint.meta);
    });
    await this.environment.flushed;
  }
}

function openEnvironment(path: string): RootDatabase {
  // Each commit is synced before it is announced: without `overlappingSync` that is LMDB's own, plain promise.
  return open({ path, maxDbs: 8, overlappingSync: false });
}

function snapshotFolder(directory: string, height: number): string {
  return join(directory, `snapshot-${height}`);
}

async function copyEnvironment(from: string, to: string): Promise<void> {
  await mkdir(to);
  const source = open({ path: from, maxDbs: 8, readOnly: true });
  try {
    await source.backup(to, true);
  } finally {
    await source.close();
  }
  await syncFile(join(to, 'data.mdb'));
}

function encodeRun({ words }: KeyRun): Buffer {
  const bytes = Buffer.alloc(RUN_HEAD_BYTES + words.byteLength);
  bytes.set(new Uint8Array(words.buffer, words.byteOffset, words.byteLength), RUN_HEAD_BYTES);
  bytes.writeUInt32LE(crc32(bytes.subarray(RUN_HEAD_BYTES)));
  return bytes;
}

function decodeRun(until: number, bytes: Buffer): KeyRun {
  const content = bytes.subarray(RUN_HEAD_BYTES);
  if (bytes.readUInt32LE() !== crc32(content)) {
    throw new StoreError(
      'ONCE_RECORD_UNREADABLE',
      'A run of idempotency keys does not match its checksum.',
      { applied: 'no' },
    );
  }
  return { until, words: new Uint32Array(new Uint8Array(content).buffer) };
}

async function syncFile(path: string): Promise<void> {
  const file = await openFile(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
