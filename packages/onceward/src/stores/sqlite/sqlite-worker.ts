import { parentPort, workerData } from 'node:worker_threads';
import { OncewardError, StoreError } from '../../engine/errors.ts';
import { openDatabase } from './sqlite-driver.ts';
import { SqliteBusy, type SqliteCalls, SqliteFile } from './sqlite-file.ts';
import type { WorkerRequest, WorkerResponse, WorkerStart } from './worker-messages.ts';

/** The thread that owns the database file: it waits for the disk so that the event loop need not. */
const start = workerData as WorkerStart;
const sleepCell = new Int32Array(new SharedArrayBuffer(4));

function reply(response: WorkerResponse): void {
  parentPort?.postMessage(response);
}

/** Tries again while another process writes. SQLite's own waiting doubles its naps, which starves one of the two. */
function patiently<T>(work: () => T): T {
  const giveUpAt = performance.now() + start.timeoutMs;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof SqliteBusy)) throw error;
      if (performance.now() >= giveUpAt) throw locked(start.timeoutMs);
      Atomics.wait(sleepCell, 0, 0, 0.5 + Math.random() * 2);
    }
  }
}

function locked(ms: number): StoreError {
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `another process has been writing to the file for ${ms} ms`,
    { applied: 'no' },
  );
}

/** Errors lose their class on the way between threads; their codes travel. */
function describe(error: unknown): NonNullable<WorkerResponse['error']> {
  const { message } = error as Error;
  if (error instanceof StoreError) return { code: error.code, message, applied: error.applied };
  if (error instanceof OncewardError) return { code: error.code, message, applied: 'unknown' };
  return { code: 'ONCE_STORE_UNAVAILABLE', message, applied: 'unknown' };
}

function call(file: SqliteFile, { verb, parameters }: WorkerRequest): unknown {
  if (verb === 'close') return file.close();
  const calls = file as unknown as Record<keyof SqliteCalls, (...args: unknown[]) => unknown>;
  return patiently(() => calls[verb](...parameters));
}

try {
  const database = openDatabase(start.path, start.driver, start.driverHomes);
  const file = patiently(() => new SqliteFile(database, true));
  parentPort?.on('message', (request: WorkerRequest) => {
    try {
      reply({ id: request.id, result: call(file, request) });
    } catch (error) {
      reply({ id: request.id, error: describe(error) });
    }
  });
  reply({ id: 0, result: file.proof });
} catch (error) {
  reply({ id: 0, error: describe(error) });
}
