import { isAbsolute, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { StoreError } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';
import { type DurabilityProof, SqliteBusy, type SqliteCalls, SqliteFile } from './sqlite-file.ts';
import { threadProgram } from './thread-program.ts';
import type {
  ThreadOptions,
  WorkerRequest,
  WorkerResponse,
  WorkerStart,
} from './worker-messages.ts';

/** The way to the database: in a thread of its own, or on the caller's connection. */
export interface SqliteAccess {
  readonly proof: DurabilityProof;
  call<Verb extends keyof SqliteCalls>(
    verb: Verb,
    ...parameters: Parameters<SqliteCalls[Verb]>
  ): Promise<ReturnType<SqliteCalls[Verb]>>;
  close(): Promise<void>;
}

/** On a connection that the caller opened. Every call blocks the event loop while SQLite works. */
export async function shareDatabase(
  database: SqliteDatabase,
  timeoutMs: DurationMs,
): Promise<SqliteAccess> {
  const patiently = async <T>(work: () => T): Promise<T> => {
    const giveUpAt = performance.now() + timeoutMs;
    for (;;) {
      try {
        return work();
      } catch (error) {
        if (!(error instanceof SqliteBusy)) throw error;
        if (performance.now() >= giveUpAt) throw locked(timeoutMs);
        await sleep(1 + Math.random() * 3);
      }
    }
  };
  const file = await patiently(() => new SqliteFile(database, false));
  let closed = false;
  return {
    proof: file.proof,
    call: async (verb, ...parameters) => {
      if (closed) throw unavailable('the store is closed', 'no');
      const calls = file as unknown as Record<string, (...args: unknown[]) => never>;
      return patiently(() => (calls[verb] as (...args: unknown[]) => never)(...parameters));
    },
    // The connection stays the caller's.
    async close() {
      closed = true;
    },
  };
}

interface Waiting {
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** In a thread of its own, which opens the file itself. */
export async function openInThread(options: ThreadOptions): Promise<SqliteAccess> {
  const workerData: WorkerStart = { ...options, driverHomes: driverHomes() };
  const worker = new Worker(threadProgram(), { eval: true, workerData });
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let ended = false;
  let closing: Promise<void> | null = null;

  const ask = <T>(id: number, send: () => void): Promise<T> => {
    if (ended) return Promise.reject(unavailable('the store is closed', 'no'));
    return new Promise<T>((resolve, reject) => {
      waiting.set(id, { resolve: resolve as (result: unknown) => void, reject });
      // A process may end while the thread is idle, but not while someone waits for it.
      worker.ref();
      send();
    });
  };
  worker.on('message', (response: WorkerResponse) => {
    const caller = waiting.get(response.id);
    waiting.delete(response.id);
    if (waiting.size === 0) worker.unref();
    if (response.error === undefined) caller?.resolve(response.result);
    else caller?.reject(fromThread(response.error));
  });
  const end = (why: string) => {
    ended = true;
    for (const caller of waiting.values()) caller.reject(unavailable(why, 'unknown'));
    waiting.clear();
  };
  worker.on('error', (error) => end(`the thread of the database died: ${error.message}`));
  worker.on('exit', () => end('the thread of the database has ended'));

  const proof = await ask<DurabilityProof>(0, () => {}).catch(async (error: unknown) => {
    await worker.terminate();
    throw error;
  });
  const call = <T>(verb: WorkerRequest['verb'], ...parameters: unknown[]): Promise<T> => {
    const id = ++lastId;
    return ask(id, () => worker.postMessage({ id, verb, parameters } satisfies WorkerRequest));
  };
  // Ended from here once the file is closed: not every runtime lets a thread end itself.
  const closeThread = async () => {
    if (ended) return;
    try {
      await call<void>('close');
    } finally {
      worker.ref();
      await worker.terminate();
    }
  };
  return {
    proof,
    call: (verb, ...parameters) =>
      closing === null
        ? call(verb, ...parameters)
        : Promise.reject(unavailable('the store is closed', 'no')),
    close: () => (closing ??= closeThread()),
  };
}

/** A driver is resolved beside this library; where that was bundled, beside the program or in its folder. */
function driverHomes(): string[] {
  const homes = [import.meta.url, process.argv[1], join(process.cwd(), 'package.json')];
  return homes.filter((home): home is string => home !== undefined && isFile(home));
}

function isFile(home: string): boolean {
  return home.startsWith('file:') || isAbsolute(home);
}

function fromThread(error: NonNullable<WorkerResponse['error']>): StoreError {
  return new StoreError(error.code, error.message, { applied: error.applied });
}

function unavailable(message: string, applied: 'no' | 'unknown'): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { applied });
}

function locked(ms: DurationMs): StoreError {
  return unavailable(`another connection has been writing to the file for ${ms} ms`, 'no');
}
