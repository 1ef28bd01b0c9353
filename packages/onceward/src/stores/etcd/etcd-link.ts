import { StoreError } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import { GrpcChannel, GrpcError } from './grpc-channel.ts';
import { Message } from './protobuf.ts';

const RECONNECT_PAUSE_MS: DurationMs = 50;

/**
 * A connection to one of the endpoints. When it breaks or falls silent, the next one is tried. Calls are never sent
 * twice: whether a broken one took effect is for the caller to find out.
 */
export class EtcdLink {
  readonly #endpoints: readonly string[];
  readonly #timeoutMs: DurationMs;
  readonly #deadlines: CallDeadlines;
  #next = 0;
  #channel: GrpcChannel | null = null;
  #opening: Promise<GrpcChannel> | null = null;
  #failedAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(endpoints: readonly string[], timeoutMs: DurationMs) {
    this.#endpoints = endpoints;
    this.#timeoutMs = timeoutMs;
    this.#deadlines = new CallDeadlines(timeoutMs, () => this.#drop(this.#channel));
  }

  call(path: string, request: Uint8Array): Promise<Message> {
    let sent = false;
    const giveUpAt = performance.now() + this.#timeoutMs;
    const run = async () => {
      const channel = this.#channel ?? (await this.#open());
      // Its caller's promise is rejected as not sent, or is about to be.
      if (performance.now() >= giveUpAt) throw new Error('connecting took too long');
      sent = true;
      try {
        return new Message(await channel.call(path, request));
      } catch (error) {
        if (!isRefusal(error)) this.#drop(channel);
        throw error;
      }
    };
    return this.#deadlines.bound(
      run(),
      (cause) => explain(cause, sent),
      () => (sent ? 'unknown' : 'no'),
    );
  }

  /** Settles when the stream has news, breaks or is aborted. */
  async watch(
    path: string,
    request: Uint8Array,
    hasNews: (message: Message) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const channel = this.#channel ?? (await this.#open());
    await new Promise<void>((resolve) => {
      const cancel = channel.stream(
        path,
        request,
        (frame) => {
          if (hasNews(new Message(frame))) cancel();
        },
        () => resolve(),
      );
      signal.addEventListener('abort', cancel, { once: true });
      if (signal.aborted) cancel();
    });
  }

  close(): void {
    this.#closed = true;
    this.#drop(this.#channel);
  }

  #open(): Promise<GrpcChannel> {
    if (this.#closed) return Promise.reject(new Error('the store is closed'));
    this.#opening ??= this.#openNext().finally(() => {
      this.#opening = null;
    });
    return this.#opening;
  }

  /** Every endpoint once, beginning with the one after the last that failed. */
  async #openNext(): Promise<GrpcChannel> {
    if (performance.now() - this.#failedAt < RECONNECT_PAUSE_MS) {
      throw new Error('no endpoint could be reached a moment ago');
    }
    const failures: string[] = [];
    for (let tries = 0; tries < this.#endpoints.length; tries += 1) {
      const endpoint = this.#endpoints[this.#next % this.#endpoints.length] as string;
      try {
        // A silent endpoint must leave time for the others.
        const limit = this.#timeoutMs / (this.#endpoints.length + 1);
        const channel = await GrpcChannel.open(endpoint, limit, (it) => this.#drop(it));
        this.#channel = channel;
        if (this.#closed) this.#drop(channel);
        return channel;
      } catch (error) {
        failures.push(`${endpoint}: ${(error as Error).message}`);
        this.#next += 1;
      }
    }
    this.#failedAt = performance.now();
    throw new Error(failures.join('; '));
  }

  #drop(channel: GrpcChannel | null): void {
    if (channel === null || channel !== this.#channel) return;
    this.#channel = null;
    this.#next += 1;
    channel.close();
  }
}

/** Statuses after which a request is known not to have been carried out. */
const NOT_APPLIED = new Set([3, 5, 7, 8, 9, 11, 12, 16]);

/** The server thought about the request and refused it; the connection is in order. */
function isRefusal(error: unknown): boolean {
  return error instanceof GrpcError && NOT_APPLIED.has(error.status);
}

function explain(cause: unknown, sent: boolean): StoreError {
  const message = cause instanceof Error ? cause.message : String(cause);
  const applied = !sent || isRefusal(cause) ? 'no' : 'unknown';
  return new StoreError('ONCE_STORE_UNAVAILABLE', `etcd failed: ${message}`, { cause, applied });
}
