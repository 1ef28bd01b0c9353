import { hash } from 'node:crypto';
import { closeSync, fdatasync, openSync, write } from 'node:fs';
import { join } from 'node:path';
import Database from 'libsql';
import { open as openLmdb } from 'lmdb';
import { createOnceward, profiles } from 'onceward';
import { openWalStore } from 'onceward/wal';
import { type CycleTarget, KEEP_UNTIL, SAMPLE } from './cycles.ts';

/** The limit: appends gathered into one write and one fdatasync while the next batch fills. Nothing is kept in mind. */
export function bareLoop(folder: string): CycleTarget {
  const file = openSync(join(folder, 'bare.log'), 'a');
  let waiting: (() => void)[] = [];
  let chunks: Uint8Array[] = [];
  let busy = false;
  const flush = () => {
    if (busy || waiting.length === 0) return;
    busy = true;
    const batch = waiting;
    const bytes = Buffer.concat(chunks);
    waiting = [];
    chunks = [];
    write(file, bytes, (failed) => {
      if (failed) throw failed;
      fdatasync(file, (unsynced) => {
        if (unsynced) throw unsynced;
        busy = false;
        for (const done of batch) done();
        flush();
      });
    });
  };
  const append = (bytes: Uint8Array) =>
    new Promise<void>((resolve) => {
      waiting.push(resolve);
      chunks.push(bytes);
      if (!busy) queueMicrotask(flush);
    });
  return {
    name: 'bare group-commit loop',
    async cycle() {
      await append(SAMPLE.claim);
      await append(SAMPLE.commit);
    },
    async close() {
      closeSync(file);
    },
  };
}

export async function walTarget(folder: string): Promise<CycleTarget> {
  const store = await openWalStore({ directory: join(folder, 'wal') });
  return {
    name: 'wal store',
    async cycle(id) {
      const claim = { bytes: SAMPLE.claim, state: 'pending', dueAt: KEEP_UNTIL } as const;
      const claimed = await store.swap(id, null, claim);
      if (!claimed.won) throw new Error('the claim lost');
      const commit = { bytes: SAMPLE.commit, state: 'committed', dueAt: KEEP_UNTIL } as const;
      const settled = await store.swap(id, claimed.revision, commit);
      if (!settled.won) throw new Error('the settle lost');
    },
    close: () => store.close(),
  };
}

/** Everything an operation costs: input checks, near tier, codec, deadlines, heartbeat timer, store. */
export async function engineTarget(folder: string): Promise<CycleTarget> {
  const store = await openWalStore({ directory: join(folder, 'engine') });
  const engine = createOnceward({ store });
  const outcome = { contentType: 'application/json', bytes: new Uint8Array(500) };
  return {
    name: 'engine on the wal store',
    async cycle(id) {
      const result = await engine.execute(
        {
          id,
          fingerprint: 'n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg',
          effect: { kind: 'external', onLapse: 'in_doubt' },
          policy: profiles.http,
        },
        async () => ({ as: 'committed', outcome }),
      );
      if (result.kind !== 'executed' || !result.recorded) throw new Error('not executed');
    },
    async close() {
      await engine.close();
      await store.close();
    },
  };
}

/** SQLite as a careful team would use it: WAL, FULL, a hashed key, whatever waits goes into one transaction. */
export function sqliteTarget(folder: string): CycleTarget {
  const db = new Database(join(folder, 'bench.sqlite'));
  db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL');
  db.exec(
    'CREATE TABLE op (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, state INTEGER, due INTEGER, bytes BLOB)',
  );
  const claim = db.prepare(
    'INSERT INTO op (hash, state, due, bytes) VALUES (?, 0, ?, ?) ON CONFLICT DO NOTHING',
  );
  const settle = db.prepare(
    'UPDATE op SET state = 1, due = ?, bytes = ? WHERE hash = ? AND state = 0',
  );
  let waiting: { work: () => void; resolve: () => void }[] = [];
  const flush = () => {
    const batch = waiting;
    waiting = [];
    db.exec('BEGIN IMMEDIATE');
    for (const { work } of batch) work();
    db.exec('COMMIT');
    for (const { resolve } of batch) resolve();
  };
  const enqueue = (work: () => void) =>
    new Promise<void>((resolve) => {
      waiting.push({ work, resolve });
      if (waiting.length === 1) setImmediate(flush);
    });
  return {
    name: 'SQLite FULL, group commit',
    async cycle(id) {
      const key = hash('sha256', `${id.scope}\0${id.key}`, 'buffer').subarray(0, 16);
      await enqueue(() => void claim.run(key, KEEP_UNTIL, SAMPLE.claim));
      await enqueue(() => void settle.run(KEEP_UNTIL, SAMPLE.commit, key));
    },
    async close() {
      db.close();
    },
  };
}

/** LMDB with its own group commit: asynchronous conditional writes, synced before they are acknowledged. */
export function lmdbTarget(folder: string): CycleTarget {
  const db = openLmdb<Uint8Array, Buffer>({
    path: join(folder, 'bench.lmdb'),
    encoding: 'binary',
    keyEncoding: 'binary',
    useVersions: true,
    overlappingSync: false,
  });
  return {
    name: 'LMDB',
    async cycle(id) {
      const key = hash('sha256', `${id.scope}\0${id.key}`, 'buffer').subarray(0, 16);
      const claimed = await db.ifNoExists(key, () => void db.put(key, SAMPLE.claim, 1));
      if (!claimed) throw new Error('the claim lost');
      if (!(await db.put(key, SAMPLE.commit, 2, 1))) throw new Error('the settle lost');
    },
    close: () => db.close(),
  };
}
