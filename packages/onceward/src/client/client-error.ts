/** Every error the client raises of its own, with what to do about it. Codes are stable. */
export const CLIENT_ERRORS = {
  INVALID_INPUT: 'Correct the argument; nothing was stored or sent.',
  CIRCUIT_OPEN: 'The server failed too often; try again after `retryAfterMs` with the same key.',
  STORAGE_FULL: 'The device has no room left; nothing was stored or sent.',
  STORAGE_FAILED:
    'The storage failed; nothing was sent. Open it again, and repeat with the same key.',
  OUTBOX_CLOSED: 'Open the outbox again.',
} as const satisfies Record<string, string>;

export type ClientErrorCode = keyof typeof CLIENT_ERRORS;

export class ClientError extends Error {
  override readonly name = 'ClientError';
  readonly code: ClientErrorCode;
  readonly retryAfterMs: number | undefined;

  constructor(
    code: ClientErrorCode,
    message: string,
    details: { readonly cause?: unknown; readonly retryAfterMs?: number } = {},
  ) {
    super(message, details);
    this.code = code;
    this.retryAfterMs = details.retryAfterMs;
  }
}
