import type { ErrorCode } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { SqliteDriver } from './sqlite-driver.ts';
import type { SqliteCalls } from './sqlite-file.ts';

export interface ThreadOptions {
  readonly path: string;
  readonly driver: SqliteDriver | undefined;
  /** How long to try while another process writes. */
  readonly timeoutMs: DurationMs;
}

export interface WorkerStart extends ThreadOptions {
  /** Files, by path or URL, from which a driver that is not Node's own is resolved, one after the other. */
  readonly driverHomes: readonly string[];
}

export interface WorkerRequest {
  readonly id: number;
  readonly verb: keyof SqliteCalls | 'close';
  readonly parameters: readonly unknown[];
}

/** The response with id 0 says that the file is open. */
export interface WorkerResponse {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly applied: 'no' | 'unknown';
  };
}
