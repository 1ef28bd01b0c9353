/** A call that the server refused for good, or that never got an answer. */
export class LedgerCallError extends Error {
  override readonly name = 'LedgerCallError';
  /** The status as Connect names it, such as `invalid_argument`; `no_answer` if there was none. */
  readonly status: string;
  /** Whether the same call may succeed later. */
  readonly isTransient: boolean;

  /** Whether the credential is missing, wrong or expired: the call itself was not processed. */
  get isUnauthenticated(): boolean {
    return this.status === 'unauthenticated' || this.status === 'http_401';
  }

  constructor(status: string, message: string, isTransient: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.isTransient = isTransient;
  }
}

/** What was answered is not what was proven, or nothing was. Whether the call took effect is not known by that. */
export function unproven(reason: string, cause?: unknown): LedgerCallError {
  const message = `The ledger's proof does not hold: ${reason}.`;
  return new LedgerCallError('unproven', message, false, cause);
}
