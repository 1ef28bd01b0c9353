import type { ServerResponse } from 'node:http';
import type { HttpAnswer } from 'onceward/http';
import type { Visit } from '../api/visit.ts';

const REPLAYED = 'idempotency-replayed';
const KEPT_UNTIL = 'idempotency-kept-until';

/** Sends an answer that is there whole, as the first of its key. */
export function sendFirst(
  response: ServerResponse,
  answer: HttpAnswer,
  keptUntil: string | null,
): void {
  const headers = unmarked(answer.headers).concat(REPLAYED, 'false');
  if (keptUntil !== null) headers.push(KEPT_UNTIL, keptUntil);
  sendWhole(response, { ...answer, headers });
}

/** Sends an answer that is there whole. */
export function sendWhole(response: ServerResponse, answer: HttpAnswer): void {
  if (response.destroyed) return;
  const { status, headers, body } = answer;
  const list = headers.filter((_, index, all) => {
    const name = all[index - (index % 2)] ?? '';
    return name.toLowerCase() !== 'content-length';
  });
  if (status !== 204 && status !== 304) list.push('content-length', String(body.length));
  response.writeHead(status, list);
  response.end(body);
}

export interface AnswerHead {
  readonly status: number;
  readonly headers: readonly string[];
  /** It is the first answer of its key. */
  readonly mark: boolean;
}

/** An answer that goes out piece by piece, as fast as the client takes it. */
export class OutgoingAnswer {
  readonly #response: ServerResponse;
  readonly #visit: Visit;
  readonly #head: AnswerHead;
  readonly #patienceMs: number;

  /** `patienceMs`: how long the client may take nothing of it. */
  constructor(response: ServerResponse, visit: Visit, head: AnswerHead, patienceMs: number) {
    this.#response = response;
    this.#visit = visit;
    this.#head = head;
    this.#patienceMs = patienceMs;
  }

  /** The client has left. */
  get isOver(): boolean {
    return this.#visit.isOver;
  }

  begin(): void {
    const { status, headers, mark } = this.#head;
    const list = mark ? unmarked(headers).concat(REPLAYED, 'false') : [...headers];
    this.#response.writeHead(status, list);
    this.#response.flushHeaders();
    cutStalled(this.#response, this.#visit, this.#patienceMs);
  }

  async write(piece: Uint8Array): Promise<void> {
    if (this.#visit.isOver || this.#response.write(piece)) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#visit.forget(done);
        this.#response.off('drain', done);
        resolve();
      };
      this.#response.on('drain', done);
      this.#visit.whenOver(done);
    });
  }
}

/** An upstream that dedupes too marks its answers in the same way; here ours is the one that counts. */
function unmarked(headers: readonly string[]): string[] {
  return headers.filter((_, at, all) => {
    const name = all[at - (at % 2)]?.toLowerCase();
    return name !== REPLAYED && name !== KEPT_UNTIL;
  });
}

/**
 * Cuts a client that takes nothing of its answer for so long. Otherwise a few that never read would hold all the
 * connections to the upstream, and everybody else would wait.
 */
export function cutStalled(response: ServerResponse, visit: Visit, patienceMs: number): void {
  let before = '';
  const timer = setInterval(() => {
    const { socket } = response;
    const now = response.writableNeedDrain
      ? `${socket?.bytesWritten} ${socket?.writableLength}`
      : '';
    if (now !== '' && now === before && socket !== null) socket.destroy();
    before = now;
  }, patienceMs).unref();
  visit.whenOver(() => clearInterval(timer));
}
