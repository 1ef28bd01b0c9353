import { StoreError } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import type { Command, OpenConnection, RedisConnection, Reply } from './redis-driver.ts';

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 500;

export interface LinkEvents {
  /** Connected again: what was subscribed or cached at the server may be gone. */
  connected?(): void;
  message?(channel: string): void;
}

/**
 * A connection that is replaced when it breaks or falls silent. While there is none, calls are refused at once;
 * a call that has run out of time takes its connection with it, since nothing more can be expected of either.
 */
export class RedisLink {
  readonly #open: OpenConnection;
  readonly #events: LinkEvents;
  readonly #deadlines: CallDeadlines;
  #connection: RedisConnection | null = null;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;
  /** Why there is no connection, where a try has told. */
  #failure = '';

  private constructor(open: OpenConnection, timeoutMs: DurationMs, events: LinkEvents) {
    this.#open = open;
    this.#events = events;
    this.#deadlines = new CallDeadlines(timeoutMs, () => this.#drop(this.#connection));
  }

  /** Connects once; a server that is not there at the start is the caller's business. */
  static async connect(
    open: OpenConnection,
    timeoutMs: DurationMs,
    events: LinkEvents = {},
  ): Promise<RedisLink> {
    const link = new RedisLink(open, timeoutMs, events);
    try {
      await link.#connect();
    } catch (cause) {
      const reason = reasonOf(cause);
      const what = REFUSAL.test(reason) ? 'does not let us in' : 'cannot be reached';
      const message = `Redis ${what}: ${reason}`;
      throw new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause, applied: 'no' });
    }
    return link;
  }

  call(...command: Command): Promise<Reply> {
    return this.send(command);
  }

  send(command: Command): Promise<Reply> {
    const connection = this.#connection;
    if (connection === null) return Promise.reject(this.#notConnected());
    return this.#deadlines.bound(connection.send(command), explain);
  }

  async subscribe(channel: string): Promise<void> {
    if (this.#connection === null) throw this.#notConnected();
    await this.#deadlines.bound(this.#connection.subscribe(channel), explain);
  }

  async unsubscribe(channel: string): Promise<void> {
    if (this.#connection === null) return;
    await this.#deadlines.bound(this.#connection.unsubscribe(channel), explain);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#connection?.close();
    this.#connection = null;
  }

  async #connect(): Promise<void> {
    let opened: RedisConnection | null = null;
    let lost = false;
    opened = await this.#open({
      closed: () => {
        lost = true;
        this.#drop(opened);
      },
      message: (channel) => this.#events.message?.(channel),
    });
    if (this.#closed || lost) {
      opened.close();
      throw new Error('the connection closed while it was opened');
    }
    this.#connection = opened;
    this.#failure = '';
    this.#events.connected?.();
  }

  #drop(connection: RedisConnection | null): void {
    if (connection === null || connection !== this.#connection) return;
    this.#connection = null;
    connection.close();
    this.#reconnectIn(FIRST_PAUSE_MS);
  }

  #reconnectIn(ms: DurationMs): void {
    if (this.#closed) return;
    this.#retry = setTimeout(() => {
      this.#connect().catch((error: unknown) => {
        this.#failure = reasonOf(error);
        this.#reconnectIn(Math.min(ms * 2, LONGEST_PAUSE_MS));
      });
    }, ms);
    this.#retry.unref();
  }

  #notConnected(): StoreError {
    const why = this.#failure === '' ? '' : `: ${this.#failure}`;
    const message = `Redis is not connected${why}`;
    return new StoreError('ONCE_STORE_UNAVAILABLE', message, { applied: 'no' });
  }
}

/** Redis repeats the arguments of a command that it does not know, and a password is one. */
export function reasonOf(cause: unknown): string {
  const message = cause instanceof Error ? cause.message : String(cause);
  return message.replace(/,? with args beginning with:.*/s, '');
}

/** Redis answers with a code in capitals when it has refused a command; then nothing was done. */
const REFUSAL = /^-?[A-Z]{2,} /;
/** What proxies say in the same form of a command that they had forwarded. */
const OF_A_PROXY = /^-?ERR .*(connection|conn reset|timed out|timeout|closed|upstream|backend)/i;

function explain(cause: unknown): StoreError {
  const message = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof Error && isRefusal(message)) return refused(cause);
  const text = `the connection to Redis failed: ${message}`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', text, { cause, applied: 'unknown' });
}

function isRefusal(message: string): boolean {
  return REFUSAL.test(message) && !OF_A_PROXY.test(message);
}

export function refused(cause: Error): StoreError {
  const message = `Redis refused: ${cause.message}`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause, applied: 'no' });
}
