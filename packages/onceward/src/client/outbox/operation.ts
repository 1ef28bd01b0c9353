import type { Entry } from '../storages/outbox-storage.ts';

/** A request as it is stored. Credentials are not part of it: they are added when it is sent. */
export interface StoredRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** `base64`: the body is bytes. */
  readonly bodyEncoding: 'text' | 'base64';
}

/** One request under one key. A plain operation has one of them, a group several. */
export interface Step {
  readonly key: string;
  readonly request: StoredRequest;
  /** What takes the step back, under a key of its own. */
  readonly undo: { readonly key: string; readonly request: StoredRequest } | null;
  readonly answer: StoredAnswer | null;
  readonly undone: boolean;
}

export function newStep(key: string, request: StoredRequest, undo: Step['undo'] = null): Step {
  return { key, request, undo, answer: null, undone: false };
}

export interface StoredAnswer {
  readonly status: number;
  readonly replayed: boolean;
  readonly replayCount: number;
  readonly contentType: string | null;
  /** `null`: empty, not text, or longer than is kept. */
  readonly body: string | null;
}

/** Else a done operation has no answer: its server knows that it happened, and no longer what it said. */
export function isSuccess({ status }: StoredAnswer): boolean {
  return status < 300;
}

interface OperationBase extends Entry {
  readonly id: string;
  /** Who queued it. It is sent while the same one is signed in, and never by another. */
  readonly owner: string | null;
  readonly lane: string;
  readonly createdAt: number;
  readonly group: boolean;
  readonly steps: readonly Step[];
  /** Free for the application: what to show for it in a list. */
  readonly label: string | null;
  /** Free for the application too, any JSON value. */
  readonly meta: unknown;
  /** Equal for equal requests; see `fingerprintOf`. */
  readonly fingerprint: string;
  readonly coalesce: string | null;
  /**
   * When an attempt of the current step was begun whose outcome is not known, by the wall clock. `null`: as
   * far as is known, the step has not happened.
   */
  readonly unsettledSince: number | null;
  /** Why a group is being undone. */
  readonly cause: string | null;
}

export interface WaitingOperation extends OperationBase {
  readonly state: 'waiting';
  readonly direction: 'forward' | 'undo';
  /** The step that is sent next, or taken back next. */
  readonly cursor: number;
  /** Answers that called for another try. */
  readonly attempts: number;
  /** Attempts in a row that brought no answer. They lengthen the pause and use up nothing. */
  readonly misses: number;
  /** Attempts of the current step that were begun, by whichever tab. */
  readonly begun: number;
  /** When the server first said "not now", by the wall clock. */
  readonly turnedAwaySince: number | null;
  /** -1: someone asked for a try at once, even where the circuit is open. */
  readonly notBefore: number;
  /** When `notBefore` was set. A clock that shows less has been set back since. */
  readonly delayedAt: number;
  /** When a person last asked for another try of what may have happened. */
  readonly retriedAt: number | null;
  readonly problem: string | null;
  /** Asked for while the outcome was unknown; done as soon as the old key is settled. */
  readonly wish: Wish | null;
}

export type Wish =
  | {
      readonly kind: 'edit';
      readonly key: string;
      readonly request: StoredRequest;
      readonly hash: string;
    }
  | { readonly kind: 'cancel' };

export type FailureOutcome =
  /** The server said no, or never took it. A retry gets a new key. */
  | 'refused'
  /** It may have happened. A retry keeps the key. */
  | 'unknown'
  /** A group of which every finished step was taken back. */
  | 'undone'
  /** A group that could not be taken back as a whole. */
  | 'stuck'
  /** An edit that came after the original had happened; it was never sent. */
  | 'too_late';

/** Why an operation failed, for programs. Stable. */
export type FailureCode =
  /** The server said no; `answer` has its words. */
  | 'REFUSED'
  /** The server does not know whether it happened, or says that it no longer knows. */
  | 'IN_DOUBT'
  /** "Not now", too often or for too long. */
  | 'GAVE_UP'
  /** No answer, and the server may have forgotten the key. */
  | 'WINDOW_PASSED'
  /** It cannot be sent: a bad address, or an earlier answer of its group lacks what it needs. */
  | 'UNSENDABLE'
  | 'CANCELLED'
  | 'ABANDONED'
  | 'TOO_LATE'
  /** Stored by another version. */
  | 'UNREADABLE';

export interface FailedOperation extends OperationBase {
  readonly state: 'failed';
  readonly direction: 'forward' | 'undo';
  readonly cursor: number;
  readonly attempts: number;
  readonly outcome: FailureOutcome;
  readonly code: FailureCode;
  /** For people. */
  readonly reason: string;
  /** The last answer, with its status and, where it is short enough, its body. */
  readonly answer: StoredAnswer | null;
  readonly failedAt: number;
}

/** What is remembered of a success, so that it is not sent again when the server has forgotten it. */
export interface DoneOperation extends Entry {
  readonly state: 'done';
  readonly id: string;
  readonly owner: string | null;
  readonly lane: string;
  readonly label: string | null;
  readonly meta: unknown;
  readonly keys: readonly string[];
  readonly fingerprint: string;
  /** One for each step. */
  readonly answers: readonly (StoredAnswer | null)[];
  readonly doneAt: number;
}

export type Operation = WaitingOperation | FailedOperation | DoneOperation;

/** Points from a key or a payload to the operation that has it. */
export interface Pointer extends Entry {
  readonly id: string;
}

/**
 * The number that was given last. It is its own version: a position that is as expected says that every number
 * after it is free, even if the whole storage was emptied and filled again meanwhile.
 */
export interface Position extends Entry {
  readonly last: number;
}

/** Nothing is begun while it is stored. */
export interface Pause extends Entry {
  /** Whose credentials were refused, until someone signs in. Left out: someone asked for a pause, for everybody. */
  readonly owner?: string | null;
}

/** Names of different owners never collide. A `:` in either part is encoded. */
function scoped(owner: string | null, name: string): string {
  return ownedBy(owner) + encodeURIComponent(name);
}

/** What the names of an owner begin with. */
export function ownedBy(owner: string | null): string {
  return owner === null ? '' : `${encodeURIComponent(owner)}:`;
}

/** The owner of what is stored; what was stored before there were owners has none. */
export function ownerOf(entry: Entry): string | null {
  return (entry as { owner?: string }).owner ?? null;
}

/**
 * How the storage is laid out. An id is the encoded owner and lane and a number that rises over all lanes, so waiting
 * operations sort by lane and then by age. The first number of a storage is random: an id is never given twice, even
 * if all of it was deleted.
 */
export const layout = {
  position: 'position',
  pause: 'pause',
  waiting: 'waiting/',
  failed: 'failed/',
  done: 'done/',
  key: (owner: string | null, key: string) => `key/${scoped(owner, key)}`,
  fingerprint: (owner: string | null, hash: string) => `print/${scoped(owner, hash)}`,
  fingerprints: 'print/',
  tags: 'tag/',
  coalesce: (owner: string | null, lane: string, tag: string) =>
    `tag/${scoped(owner, lane)}/${encodeURIComponent(tag)}`,
  id: (owner: string | null, lane: string, position: number) =>
    `${scoped(owner, lane)}/${String(position).padStart(16, '0')}`,
  /** An owner's lane, as an id begins with it. */
  queueOf: (id: string) => id.replace(/\/.*/s, ''),
} as const;

/** The keys of all its steps, of which the first stands for the operation. */
export function keysOf(
  operation: Pick<DoneOperation, 'keys'> | Pick<WaitingOperation, 'steps'>,
): readonly string[] {
  return 'keys' in operation ? operation.keys : operation.steps.map((step) => step.key);
}

export function currentRequest({ steps, cursor, direction }: WaitingOperation): {
  readonly key: string;
  readonly request: StoredRequest;
} {
  const step = steps[cursor] as Step;
  return direction === 'forward' ? step : (step.undo as NonNullable<Step['undo']>);
}
