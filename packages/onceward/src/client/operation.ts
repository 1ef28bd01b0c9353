import type { Entry } from './outbox-storage.ts';

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

interface OperationBase extends Entry {
  readonly id: string;
  readonly lane: string;
  readonly createdAt: number;
  readonly group: boolean;
  readonly steps: readonly Step[];
  /** Free for the application: what to show for it in a list. */
  readonly label: string | null;
  /** Equal for equal requests; see `fingerprintOf`. */
  readonly fingerprint: string;
  readonly coalesce: string | null;
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
  readonly notBefore: number;
  /**
   * When an attempt of the current step was begun whose outcome is not known, by the wall clock. `null`: as
   * far as anyone can tell, the step has not happened.
   */
  readonly unsettledSince: number | null;
  readonly problem: string | null;
  /** Why a group is on its way back. */
  readonly cause: string | null;
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

export interface FailedOperation extends OperationBase {
  readonly state: 'failed';
  readonly direction: 'forward' | 'undo';
  readonly cursor: number;
  readonly attempts: number;
  readonly outcome: FailureOutcome;
  readonly reason: string;
  readonly failedAt: number;
}

/** What is remembered of a success, so that it is not sent again when the server has forgotten it. */
export interface DoneOperation extends Entry {
  readonly state: 'done';
  readonly id: string;
  readonly lane: string;
  readonly label: string | null;
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

/**
 * How the storage is laid out. An id is the encoded lane and a number that rises over all lanes, so waiting
 * operations sort by lane and then by age, and an id is never given twice.
 */
export const layout = {
  position: 'position',
  waiting: 'waiting/',
  failed: 'failed/',
  done: 'done/',
  key: (key: string) => `key/${encodeURIComponent(key)}`,
  fingerprint: (hash: string) => `print/${hash}`,
  fingerprints: 'print/',
  tags: 'tag/',
  coalesce: (lane: string, tag: string) =>
    `tag/${encodeURIComponent(lane)}/${encodeURIComponent(tag)}`,
  id: (lane: string, position: number) =>
    `${encodeURIComponent(lane)}/${String(position).padStart(16, '0')}`,
  laneOf: (lane: string) => `waiting/${encodeURIComponent(lane)}/`,
} as const;

/** The keys of all its steps, of which the first stands for the operation. */
export function keysOf(
  operation: Pick<DoneOperation, 'keys'> | Pick<WaitingOperation, 'steps'>,
): readonly string[] {
  return 'keys' in operation ? operation.keys : operation.steps.map((step) => step.key);
}

export function currentRequest(operation: WaitingOperation): {
  readonly key: string;
  readonly request: StoredRequest;
} {
  const step = operation.steps[operation.cursor];
  const current = operation.direction === 'forward' ? step : step?.undo;
  if (!current) throw new Error(`no step ${operation.cursor}`);
  return current;
}
