import type { ErrorCode } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { SqliteDriver } from './sqlite-driver.ts';
import type { SqliteCalls } from './sqlite-file.ts';

export interface WorkerStart {
  readonly path: string;
  readonly driver: SqliteDriver | undefined;
  /** How long to try while another process writes. */
  readonly timeoutMs: DurationMs;
}

export interface WorkerRequest {
  readonly id: number;
  readonly verb: keyof SqliteCalls;
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
