import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { StoreError } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';
import { type DurabilityProof, SqliteBusy, type SqliteCalls, SqliteFile } from './sqlite-file.ts';
import type { WorkerRequest, WorkerResponse, WorkerStart } from './worker-messages.ts';

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
      if (closed) throw gone('the store is closed', 'no');
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
export async function openInThread(start: WorkerStart): Promise<SqliteAccess> {
  const worker = new Worker(...threadOf(start));
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let ended = false;

  const ask = <T>(id: number, send: () => void): Promise<T> => {
    if (ended) return Promise.reject(gone('the store is closed', 'no'));
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
    for (const caller of waiting.values()) caller.reject(gone(why, 'unknown'));
    waiting.clear();
  };
  worker.on('error', (error) => end(`the thread of the database died: ${error.message}`));
  worker.on('exit', () => end('the thread of the database has ended'));

  const proof = await ask<DurabilityProof>(0, () => {}).catch(async (error: unknown) => {
    await worker.terminate();
    throw error;
  });
  return {
    proof,
    call: (verb, ...parameters) => {
      const id = ++lastId;
      return ask(id, () => worker.postMessage({ id, verb, parameters } satisfies WorkerRequest));
    },
    async close() {
      if (ended) return;
      const exited = new Promise((resolve) => worker.once('exit', resolve));
      worker.ref();
      worker.postMessage('close');
      await exited;
    },
  };
}

/** Run from source, a thread has to be taught TypeScript before it can load its file. */
function threadOf(start: WorkerStart): ConstructorParameters<typeof Worker> {
  if (!import.meta.url.endsWith('.ts')) {
    return [new URL('./sqlite-worker.js', import.meta.url), { workerData: start }];
  }
  const loader = import.meta.resolve('tsx/esm/api');
  const file = new URL('./sqlite-worker.ts', import.meta.url).href;
  const code = `import('${loader}').then(({ register }) => (register(), import('${file}')))`;
  return [code, { workerData: start, eval: true }];
}

function fromThread(error: NonNullable<WorkerResponse['error']>): StoreError {
  return new StoreError(error.code, error.message, { applied: error.applied });
}

function gone(message: string, applied: 'no' | 'unknown'): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { applied });
}

function locked(ms: DurationMs): StoreError {
  return gone(`another connection has been writing to the file for ${ms} ms`, 'no');
}
