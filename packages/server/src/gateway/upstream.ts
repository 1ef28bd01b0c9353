import type { Readable } from 'node:stream';
import { Pool } from 'undici';
import type { UpstreamFault } from '../observability/metrics.ts';

export interface UpstreamRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: string[];
  readonly body: Uint8Array | Readable | null;
  /** How long the upstream may be silent, before its answer and in it. */
  readonly silenceMs: number;
  readonly signal?: AbortSignal;
}

export interface UpstreamAnswer {
  readonly status: number;
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[];
  /** `null`: there can be none, whatever the headers announce. */
  readonly body: Readable | null;
}

/** The upstream did not answer, or not to the end. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';
  /** `refused`: it never had the request. After the others it may have acted on it. */
  readonly fault: UpstreamFault;

  constructor(fault: UpstreamFault, cause: unknown) {
    super(`the upstream failed: ${fault}`, { cause });
    this.fault = fault;
  }
}

export interface UpstreamOptions {
  readonly url: URL;
  readonly connections: number;
}

const CONNECT_TIMEOUT_MS = 5_000;

/** The API behind the gateway. */
export class Upstream {
  readonly #pool: Pool;
  readonly #prefix: string;

  constructor({ url, connections }: UpstreamOptions) {
    this.#pool = new Pool(url.origin, { connections, connect: { timeout: CONNECT_TIMEOUT_MS } });
    this.#prefix = url.pathname.replace(/\/$/, '');
  }

  async send(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const { method, target, headers, body, silenceMs, signal } = request;
    try {
      const answer = await this.#pool.request({
        method,
        path: this.#prefix + target,
        headers,
        body,
        headersTimeout: silenceMs,
        bodyTimeout: silenceMs,
        responseHeaders: 'raw',
        ...(signal === undefined ? {} : { signal }),
      });
      // Asked for raw, they come as a flat list, which the types of the driver do not say.
      const raw = answer.headers as unknown as string[];
      const { statusCode: status, body: stream } = answer;
      return { status, headers: raw, body: isEmpty(status) ? discarded(stream) : stream };
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** Waits for what is in flight, unless that has been broken off already. */
  async close(): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.close();
  }

  /** Breaks off whatever is in flight. */
  destroy(): Promise<void> {
    return this.#pool.destroy();
  }
}

/** A 304 announces the length of what it does not carry. */
function isEmpty(status: number): boolean {
  return status === 304 || status === 204;
}

/** The driver holds an announced length against such an answer, and fails its body. The answer itself is sound. */
function discarded(stream: Readable): null {
  stream.on('error', () => {}).resume();
  return null;
}

const FAULTS: Readonly<Record<string, UpstreamFault>> = {
  ECONNREFUSED: 'refused',
  ENOTFOUND: 'refused',
  EAI_AGAIN: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EADDRNOTAVAIL: 'refused',
  UND_ERR_CONNECT_TIMEOUT: 'refused',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
};

/** Whatever is not known to have stopped before the first byte may have arrived. */
export function failureOf(error: unknown): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error;
  const { code = '', syscall } = error as NodeJS.ErrnoException;
  // A connection that was reset while it was being made has carried nothing.
  const fault = syscall === 'connect' ? 'refused' : (FAULTS[code] ?? 'reset');
  return new UpstreamFailure(fault, error);
}
