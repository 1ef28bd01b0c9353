/** What a caller should do next: send again under the same key, under a new one, or not at all. */
export type Retry = 'same_key' | 'new_key' | 'never';

/** What became of the effect. Only `no` may ever lead to a new key, or to undoing what came before. */
export type Happened = 'no' | 'yes' | 'unknown';

export interface RefusalKind {
  readonly status: number;
  /** What the `sync` envelope calls it. */
  readonly code: string;
  readonly retry: Retry;
  readonly happened: Happened;
}

/**
 * Everything a door or the gateway refuses with, each word once, for both sides of the wire: servers refuse with it,
 * and the client decides by it what a refusal means. A name is the end of a problem's type. Stable.
 */
export const REFUSALS = {
  'key-missing': refusal(400, 'IDEMPOTENCY_KEY_REQUIRED', 'new_key', 'no'),
  'key-invalid': refusal(400, 'IDEMPOTENCY_KEY_INVALID', 'new_key', 'no'),
  'key-conflict': refusal(400, 'IDEMPOTENCY_KEY_CONFLICT', 'new_key', 'no'),
  // The request may well be a repeat, of which this server has looked up nothing.
  'first-sent-invalid': refusal(400, 'FIRST_SENT_INVALID', 'same_key', 'unknown'),
  'body-not-canonical': refusal(400, 'BODY_NOT_CANONICAL', 'new_key', 'no'),
  'body-too-large': refusal(413, 'BODY_TOO_LARGE', 'new_key', 'no'),
  'payload-mismatch': refusal(422, 'IDEMPOTENCY_KEY_REUSED', 'new_key', 'no'),
  'key-expired': refusal(412, 'KEY_EXPIRED', 'never', 'unknown'),
  'in-progress': refusal(409, 'CONCURRENT_REQUEST', 'same_key', 'unknown'),
  'outcome-unknown': refusal(409, 'OUTCOME_UNKNOWN', 'same_key', 'unknown'),
  'response-not-retained': refusal(409, 'RESPONSE_NOT_RETAINED', 'never', 'yes'),
  // The kept failure of a handler that threw: asking again brings it back, and how far it had come is not known.
  'operation-failed': refusal(500, 'OPERATION_FAILED', 'never', 'unknown'),
  // The handler threw just now: how far it got is unknown.
  'handler-failed': refusal(500, 'HANDLER_FAILED', 'same_key', 'unknown'),
  // A transaction that a fault of the work itself undid: a violated constraint, an error that was caught.
  'rolled-back': refusal(500, 'ROLLED_BACK', 'same_key', 'no'),
  // What a person has resolved as rejected.
  'operation-rejected': refusal(409, 'OPERATION_REJECTED', 'new_key', 'no'),
  'store-unavailable': refusal(503, 'STORE_UNAVAILABLE', 'same_key', 'no'),
  // The manager did not answer, and may have accepted the submission.
  'manager-unavailable': refusal(503, 'MANAGER_UNAVAILABLE', 'same_key', 'unknown'),
  'over-quota': refusal(429, 'OVER_QUOTA', 'same_key', 'no'),
  'scope-unknown': refusal(400, 'SCOPE_UNKNOWN', 'never', 'no'),
  unauthorized: refusal(401, 'UNAUTHORIZED', 'same_key', 'no'),
  forbidden: refusal(403, 'FORBIDDEN', 'never', 'no'),
  'identity-unusable': refusal(502, 'IDENTITY_UNUSABLE', 'never', 'no'),
  'identity-unavailable': refusal(503, 'IDENTITY_UNAVAILABLE', 'same_key', 'no'),
  'upstream-refused': refusal(502, 'UPSTREAM_REFUSED', 'same_key', 'no'),
  'upstream-reset': refusal(502, 'UPSTREAM_RESET', 'same_key', 'unknown'),
  'upstream-timeout': refusal(504, 'UPSTREAM_TIMEOUT', 'same_key', 'unknown'),
} as const;

export type RefusalName = keyof typeof REFUSALS;

function refusal<R extends Retry, H extends Happened>(
  status: number,
  code: string,
  retry: R,
  happened: H,
) {
  return { status, code, retry, happened } satisfies RefusalKind;
}
