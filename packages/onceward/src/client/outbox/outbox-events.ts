import {
  type FailureCode,
  type FailureOutcome,
  keysOf,
  type Operation,
  type WaitingOperation,
} from './operation.ts';
import type { Next } from './transition.ts';

/** What happens in an outbox, for logs and progress bars. `id` names the operation. */
export type OutboxEvent =
  | { readonly type: 'queued'; readonly id: string; readonly lane: string }
  | { readonly type: 'superseded'; readonly id: string }
  | {
      readonly type: 'sending';
      readonly id: string;
      readonly attempt: number;
      readonly step: number;
      readonly steps: number;
    }
  | {
      readonly type: 'retrying';
      readonly id: string;
      readonly reason: string;
      readonly inMs: number;
    }
  | { readonly type: 'turning_back'; readonly id: string; readonly reason: string }
  | { readonly type: 'edited'; readonly id: string; readonly key: string }
  | { readonly type: 'cancelled'; readonly id: string }
  | { readonly type: 'done'; readonly id: string; readonly replayed: boolean }
  | {
      readonly type: 'failed';
      readonly id: string;
      readonly outcome: FailureOutcome;
      readonly code: FailureCode;
      readonly reason: string;
    }
  | { readonly type: 'paused'; readonly reason: PauseReason }
  | { readonly type: 'resumed' }
  | { readonly type: 'storage_failed'; readonly message: string }
  /** Another tab did something; `id` is given where it was about one operation. */
  | { readonly type: 'changed_elsewhere'; readonly id: string | null };

export type PauseReason = 'auth' | 'user';

/** Messages between tabs. Losing one costs time, never correctness. */
export type Notice =
  | { readonly kind: 'changed'; readonly id: string }
  /** Someone has paused, or goes on: the storage says which. */
  | { readonly kind: 'paused' };

export interface Bulletin {
  post(notice: Notice): void;
  listen(listener: (notice: Notice) => void): void;
  close(): void;
}

/** Between the tabs and workers of one origin. */
export function broadcastBulletin(name: string): Bulletin {
  const channel = new BroadcastChannel(name);
  return {
    post: (notice) => channel.postMessage(notice),
    listen: (listener) => {
      channel.onmessage = (message: MessageEvent<Notice>) => listener(message.data);
    },
    close: () => channel.close(),
  };
}

export const silentBulletin: Bulletin = { post() {}, listen() {}, close() {} };

/** A list of listeners in which one that throws does not keep the others from hearing. */
export class Listeners<T> {
  readonly #listeners = new Set<(value: T) => void>();

  add(listener: (value: T) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  emit(value: T): void {
    for (const listener of this.#listeners) {
      try {
        listener(value);
      } catch (error) {
        // Reported like any uncaught error, after every listener was called.
        void Promise.reject(error);
      }
    }
  }
}

export type Settled = Exclude<Operation, { state: 'waiting' }>;

/** The event to emit for a change; `null`: none. */
export function eventOf(previous: WaitingOperation, next: Next): OutboxEvent | null {
  const { id } = previous;
  switch (next.state) {
    case 'cancelled':
      return { type: 'cancelled', id };
    case 'done':
      return { type: 'done', id, replayed: !!next.answers.at(-1)?.replayed };
    case 'failed':
      return {
        type: 'failed',
        id,
        outcome: next.outcome,
        code: next.code,
        reason: next.reason,
      };
  }
  const [key = ''] = keysOf(next);
  if (next.direction !== previous.direction)
    return { type: 'turning_back', id, reason: next.cause ?? '' };
  return key === keysOf(previous)[0] ? null : { type: 'edited', id, key };
}
