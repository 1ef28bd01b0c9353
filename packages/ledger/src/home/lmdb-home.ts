import { existsSync } from 'node:fs';
import { mkdir, open as openFile, readdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { StoreError } from 'onceward';
import type { KeyRun } from '../state/key-window.ts';
import type {
  AccountPage,
  Checkpoint,
  CheckpointMeta,
  LedgerHome,
  WindowName,
} from '../state/ledger-home.ts';
import { commitTogether } from './commit-together.ts';
import { checkEnvironment, setAside } from './lmdb-environment.ts';
import {
  decodeBlock,
  decodeMeta,
  decodeRun,
  encodeBlock,
  encodeMeta,
  encodeRun,
} from './saved-form.ts';

const SNAPSHOT = /^snapshot-(\d+)$/;

/**
 * The home on disk: two LMDB environments, one for the state and one for the blocks. Both are synced as they
 * commit, the blocks first. A snapshot is a compacted copy of the state alone.
 */
export class LmdbHome implements LedgerHome {
  readonly #directory: string;
  readonly #history: RootDatabase;
  readonly #blocks: Database<Buffer, number>;
  readonly #damage: string | null;
  #state: StateDatabases;
  #snapshotHeight: number;

  private constructor(directory: string, snapshotHeight: number, damage: string | null) {
    this.#directory = directory;
    this.#snapshotHeight = snapshotHeight;
    this.#damage = damage;
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
    const damage: string[] = [];
    for (const name of ['state', 'history']) {
      // Snapshots are compacted copies of the state. Of the history nobody makes one.
      const accounts = name === 'state' ? 'all pages' : 'pages in use';
      const problem = checkEnvironment(join(directory, name), accounts);
      if (problem === null) continue;
      await setAside(directory, name);
      damage.push(`${problem} of the ${name}`);
    }
    try {
      return new LmdbHome(directory, latest, damage.join('; ') || null);
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

  damage(): string | null {
    return this.#damage;
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

  *keyRuns(window: WindowName): Iterable<KeyRun> {
    for (const { value } of this.#state.windows[window].getRange({})) yield decodeRun(value);
  }

  block(height: number): Buffer | undefined {
    const bytes = this.#blocks.getBinaryFast(height);
    if (bytes === undefined) return undefined;
    const block = decodeBlock(bytes);
    if (block !== undefined) return block;
    const message = `Block ${height} of the ledger's history does not match its checksum.`;
    throw new StoreError('ONCE_RECORD_UNREADABLE', message);
  }

  firstBlock(): number | undefined {
    const [first] = this.#blocks.getKeys({ limit: 1 });
    return first;
  }

  lastBlock(): number | undefined {
    const [last] = this.#blocks.getKeys({ limit: 1, reverse: true });
    return last;
  }

  blockCount(): number {
    return (this.#blocks.getStats() as { entryCount: number }).entryCount;
  }

  save(checkpoint: Checkpoint): Promise<void> {
    const { blocks, firstBlock } = checkpoint;
    return this.#saving('state', async () => {
      await this.#putBlocks(blocks, [...this.#blocks.getKeys({ end: firstBlock })]);
      await this.#state.save(checkpoint);
    });
  }

  saveBlocks(blocks: ReadonlyMap<number, Buffer>): Promise<void> {
    return this.#saving('history', () => this.#putBlocks(blocks, []));
  }

  async #saving<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      const why = (cause as Error).message;
      const message = `Saving the ledger's ${what} in ${this.#directory} failed: ${why}.`;
      throw new StoreError('ONCE_STORE_FAILED', message, { cause });
    }
  }

  #putBlocks(blocks: ReadonlyMap<number, Buffer>, old: readonly number[]): Promise<void> {
    const database = this.#blocks;
    return commitTogether(this.#history, function* writes() {
      for (const [height, bytes] of blocks) yield database.put(height, encodeBlock(bytes));
      for (const height of old) yield database.remove(height);
    });
  }

  snapshot(): Promise<number> {
    return this.#saving('snapshot', () => this.#snapshot());
  }

  async #snapshot(): Promise<number> {
    const height = this.meta()?.header.height ?? 0;
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
    if (checkEnvironment(copy, 'all pages') !== null) {
      await setAside(this.#directory, basename(copy));
    }
    const isThere = existsSync(join(copy, 'data.mdb'));
    if (!isThere) this.#snapshotHeight = 0;
    if (isThere) await copyEnvironment(copy, `${folder}.new`);
    await this.#state.environment.close();
    await rm(folder, { recursive: true, force: true });
    if (isThere) await rename(`${folder}.new`, folder);
    await syncFile(this.#directory);
    this.#state = new StateDatabases(folder);
  }

  async dropState(): Promise<void> {
    const folder = join(this.#directory, 'state');
    await this.#state.environment.close();
    await rm(folder, { recursive: true, force: true });
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

/** By the end of the stretch, then by the height of the checkpoint. */
type RunDatabase = Database<Buffer, [number, number]>;

class StateDatabases {
  readonly environment: RootDatabase;
  readonly accounts: Database<Buffer, number>;
  readonly balances: Database<Buffer, number>;
  readonly rows: Database<string, number>;
  readonly windows: Readonly<Record<WindowName, RunDatabase>>;
  readonly #metas: Database<string, string>;

  constructor(path: string) {
    this.environment = openEnvironment(path);
    this.accounts = this.environment.openDB({ name: 'accounts', ...BYTES_BY_NUMBER });
    this.balances = this.environment.openDB({ name: 'balances', ...BYTES_BY_NUMBER });
    this.rows = this.environment.openDB({ name: 'rows', ...TEXT_BY_NUMBER });
    this.windows = {
      keys: this.environment.openDB({ name: 'keys', encoding: 'binary' }),
      receipts: this.environment.openDB({ name: 'receipts', encoding: 'binary' }),
    };
    this.#metas = this.environment.openDB({ name: 'meta', encoding: 'string' });
  }

  meta(): CheckpointMeta | undefined {
    const text = this.#metas.get('checkpoint');
    return text === undefined ? undefined : decodeMeta(text);
  }

  save(checkpoint: Checkpoint): Promise<void> {
    return commitTogether(this.environment, () => this.#writes(checkpoint));
  }

  *#writes(checkpoint: Checkpoint): Generator<Promise<boolean>> {
    const { height } = checkpoint.meta.header;
    for (const [page, bytes] of checkpoint.accountPages) {
      yield this.accounts.put(page, bytes as Buffer);
    }
    for (const [page, bytes] of checkpoint.balancePages) {
      yield this.balances.put(page, bytes as Buffer);
    }
    for (const [page, text] of checkpoint.rowPages) yield this.rows.put(page, text);
    for (const window of ['keys', 'receipts'] as const) {
      const database = this.windows[window];
      const { runs, since } = checkpoint.windows[window];
      for (const run of [...database.getKeys({ end: [since, 0] })]) yield database.remove(run);
      for (const run of runs) yield database.put([run.until, height], encodeRun(run));
    }
    yield this.#metas.put('checkpoint', encodeMeta(checkpoint.meta));
  }
}

function openEnvironment(path: string): RootDatabase {
  // Each commit is synced before it is announced: without `overlappingSync` that is LMDB's own, plain promise.
  // A batch of its own for each turn would fail with a promise that no caller can reach.
  return open({ path, maxDbs: 8, overlappingSync: false, eventTurnBatching: false });
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

async function syncFile(path: string): Promise<void> {
  const file = await openFile(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
