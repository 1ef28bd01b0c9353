import { type ErrorCode, OncewardError } from 'onceward';

/** What the number means with which a command ends. docs/reference/cli.md lists them, and a test compares. */
export const EXIT = {
  done: { code: 0, meaning: 'done' },
  failed: { code: 1, meaning: 'something unexpected went wrong; the message is the last line' },
  usage: { code: 2, meaning: 'the command line or a setting is wrong' },
  absent: { code: 3, meaning: 'there is no such record, or no ledger' },
  refused: { code: 4, meaning: 'the server refused: credential, role, or state of the record' },
  unreachable: { code: 5, meaning: 'the server cannot be reached' },
  cannotListen: { code: 6, meaning: 'the port is in use, or may not be used' },
  storeLocked: { code: 7, meaning: 'another process has the store open' },
  storeUnusable: { code: 8, meaning: 'the data folder or the store in it cannot be used' },
  notDrained: { code: 9, meaning: 'stopped before every running request had ended' },
  unwell: { code: 10, meaning: 'doctor or verify found something that must be fixed' },
} as const;

export type ExitName = keyof typeof EXIT;

/** A failure that a command can name: one line for people, one number for scripts. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
  readonly exit: ExitName;

  constructor(exit: ExitName, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.exit = exit;
  }
}

const FROM_CODES: Partial<Record<ErrorCode, ExitName>> = {
  ONCE_INVALID_CONFIG: 'usage',
  ONCE_STORE_LOCKED: 'storeLocked',
  ONCE_STORE_VERSION: 'storeUnusable',
  ONCE_STORE_UNAVAILABLE: 'storeUnusable',
  ONCE_RECORD_UNREADABLE: 'storeUnusable',
};

export function exitOf(error: unknown): ExitName {
  if (error instanceof CommandFailure) return error.exit;
  if (error instanceof OncewardError) return FROM_CODES[error.code] ?? 'failed';
  return 'failed';
}
