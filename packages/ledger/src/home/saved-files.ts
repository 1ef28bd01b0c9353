import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { KeyRun } from '../state/key-window.ts';
import type { AccountPage, CheckpointMeta, WindowName } from '../state/ledger-home.ts';
import { checkEnvironment } from './lmdb-environment.ts';
import { type LmdbEntry, LmdbFile } from './lmdb-file.ts';
import { decodeBlock, decodeMeta, decodeRun } from './saved-form.ts';

/** What `LmdbHome` saved, read from its files without opening them in LMDB: nothing is locked, mapped or written. */
export class SavedFiles {
  readonly #path: string;
  readonly #environment: string;

  /** `folder` is `state` or one of the snapshots. */
  constructor(directory: string, folder: string) {
    this.#environment = join(directory, folder);
    this.#path = join(this.#environment, 'data.mdb');
  }

  /** What is wrong with the pages, if anything is. */
  check(): string | null {
    return checkEnvironment(this.#environment, 'all pages');
  }

  meta(): CheckpointMeta | undefined {
    const [found] = this.#entries('meta');
    return found && decodeMeta(found.value.toString());
  }

  *accountPages(): Iterable<AccountPage> {
    const balances = new Map<number, Buffer>();
    for (const { key, value } of this.#entries('balances')) balances.set(key.readUInt32LE(), value);
    for (const { key, value } of this.#entries('accounts')) {
      yield { records: value, balances: balances.get(key.readUInt32LE()) };
    }
  }

  *rowPages(): Iterable<string> {
    for (const { value } of this.#entries('rows')) yield value.toString();
  }

  rowPage(page: number): string | undefined {
    for (const { key, value } of this.#entries('rows')) {
      if (key.readUInt32LE() === page) return value.toString();
    }
    return undefined;
  }

  *keyRuns(window: WindowName): Iterable<KeyRun> {
    for (const { value } of this.#entries(window)) yield decodeRun(value);
  }

  #entries(name: string): Iterable<LmdbEntry> {
    return entriesOf(this.#path, name);
  }
}

/** The texts of the blocks in order, `undefined` for one that does not match its checksum. */
export function* savedBlocks(directory: string): Generator<string | undefined> {
  for (const { value } of entriesOf(join(directory, 'history', 'data.mdb'), 'blocks')) {
    yield decodeBlock(value)?.toString();
  }
}

/** The height of the snapshot that is there, 0 if none is. */
export function snapshotHeight(directory: string): number {
  if (!existsSync(directory)) return 0;
  const heights = readdirSync(directory).map((name) => /^snapshot-(\d+)$/.exec(name)?.[1] ?? '0');
  return Math.max(0, ...heights.map(Number));
}

function* entriesOf(path: string, name: string): Generator<LmdbEntry> {
  const file = LmdbFile.open(path);
  if (file === null) return;
  try {
    yield* file.entries(name);
  } finally {
    file.close();
  }
}
