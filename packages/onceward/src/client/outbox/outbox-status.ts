import type { ClientTimer } from '../client-world.ts';
import { layout, ownedBy } from './operation.ts';
import { Listeners, type PauseReason } from './outbox-events.ts';
import type { OutboxCore } from './runner.ts';

/** What a user interface shows of an outbox. A new object whenever something in it changed. */
export interface OutboxStatus {
  /** Of the current owner; of all, while nobody is signed in. */
  readonly waiting: number;
  readonly failed: number;
  /** Requests of this tab in flight. */
  readonly sending: number;
  /** Whether this tab is the one that sends. */
  readonly running: boolean;
  readonly paused: PauseReason | null;
  readonly online: boolean;
}

/** The shape that `useSyncExternalStore` and its like bind to. */
export interface StatusStore {
  subscribe(listener: () => void): () => void;
  getSnapshot(): OutboxStatus;
}

/** Counting is put off by this much, so that a thousand changes cost a handful of counts. */
const COUNT_AFTER_MS = 50;
/** Databases count by scanning: at most one part in so many of a long queue's time goes into it. */
const SHARE_OF_TIME = 20;

export class LiveStatus implements StatusStore {
  readonly #core: OutboxCore;
  readonly #live: () => Omit<OutboxStatus, 'waiting' | 'failed'>;
  readonly #listeners = new Listeners<void>();
  #status: OutboxStatus;
  #timer: ClientTimer | null = null;
  #waitMs = COUNT_AFTER_MS;
  #closed = false;

  constructor(core: OutboxCore, live: () => Omit<OutboxStatus, 'waiting' | 'failed'>) {
    this.#core = core;
    this.#live = live;
    this.#status = { waiting: 0, failed: 0, ...live() };
  }

  subscribe = (listener: () => void): (() => void) => this.#listeners.add(listener);

  getSnapshot = (): OutboxStatus => this.#status;

  /** Something may have changed: count again, soon. */
  touch(): void {
    if (this.#timer !== null || this.#closed) return;
    const count = () => void this.#count();
    this.#timer = this.#core.world.startTimer(this.#waitMs, count, true);
  }

  async #count(): Promise<void> {
    this.#timer = null;
    const from = this.#core.world.elapsed();
    try {
      const own = ownedBy(this.#core.owner());
      const waiting = await this.#core.book.storage.count(layout.waiting + own);
      const failed = await this.#core.book.storage.count(layout.failed + own);
      this.#waitMs = COUNT_AFTER_MS + SHARE_OF_TIME * (this.#core.world.elapsed() - from);
      const next: OutboxStatus = { waiting, failed, ...this.#live() };
      if (this.#closed || JSON.stringify(next) === JSON.stringify(this.#status)) return;
      this.#status = next;
      this.#listeners.emit();
    } catch {
      // The counts stay as they were; callers that use the storage get its error.
    }
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }
}
