import type { DurationMs } from '../../engine/units.ts';
import type { Waiters } from '../waiters.ts';
import type { PgMessage, PgPool, PgPoolClient } from './pg-driver.ts';

const PAUSE_MS: DurationMs = 500;

/** Listens on a connection of its own. While there is none, waiters poll. */
export class ChangeListener {
  readonly #pool: PgPool;
  readonly #waiters: Waiters;
  #client: PgPoolClient | null = null;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(pool: PgPool, waiters: Waiters) {
    this.#pool = pool;
    this.#waiters = waiters;
    void this.#listen();
  }

  get isListening(): boolean {
    return this.#client !== null;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#client?.release(true);
    this.#client = null;
  }

  async #listen(): Promise<void> {
    let client: PgPoolClient | null = null;
    try {
      client = await this.#pool.connect();
      if (this.#closed) {
        client.release();
        return;
      }
      const opened = client;
      client.on('notification', ({ payload }: PgMessage) => this.#waiters.wake(payload ?? ''));
      client.on('error', () => this.#lose(opened));
      await client.query('listen onceward');
      if (this.#closed) {
        client.release(true);
        return;
      }
      this.#client = client;
      // Earlier notifications were lost: every waiter reads again.
      this.#waiters.wakeAll();
    } catch {
      client?.release(true);
      this.#listenLater();
    }
  }

  #lose(client: PgPoolClient): void {
    if (this.#client !== client) return;
    this.#client = null;
    client.release(true);
    this.#waiters.wakeAll();
    this.#listenLater();
  }

  #listenLater(): void {
    if (this.#closed) return;
    this.#retry = setTimeout(() => void this.#listen(), PAUSE_MS);
    this.#retry.unref();
  }
}
