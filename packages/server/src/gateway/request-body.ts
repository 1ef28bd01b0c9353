import type { IncomingMessage, ServerResponse } from 'node:http';
import { Problem } from '../api/problem.ts';
import type { Visit } from '../api/visit.ts';
import type { Share } from './buffer-budget.ts';

export type ReadBody =
  | { readonly kind: 'whole'; readonly bytes: Uint8Array }
  /** Longer than the limit: what was read of it, and where the rest is. */
  | { readonly kind: 'over'; readonly held: readonly Uint8Array[]; readonly rest: IncomingMessage }
  /** The client fell below the least rate, or stood still while others waited for room. */
  | { readonly kind: 'slow' }
  | { readonly kind: 'aborted' };

/** How long the body says it is; `null` where it does not say. */
export function declaredLength(request: IncomingMessage): number | null {
  const { headers } = request;
  if (headers['transfer-encoding'] !== undefined) return null;
  return Number(headers['content-length'] ?? 0);
}

export interface ReadingRules {
  readonly limit: number;
  /** Bytes a second; 0 sets no least rate. */
  readonly minRate: number;
  /** Where the room for it comes from; `null` for bodies that are too small to be counted. */
  readonly share: Share | null;
}

const EMPTY: ReadBody = { kind: 'whole', bytes: Buffer.alloc(0) };
const ABORTED: ReadBody = { kind: 'aborted' };
const SLOW: ReadBody = { kind: 'slow' };

/** The first step: so little that a thousand uploads which stall in their first bytes leave room for all others. */
const FIRST_BYTES = 4_096;
/** Room is taken in steps of so much after it. */
const STEP_BYTES = 65_536;
/** The rate is measured over periods of this length; the first one is the grace of a slow start. */
const PACE_MS = 5_000;

/** Reads a body up to a limit. One that says it is longer is not begun. Ends when the client leaves, at the latest. */
export function readBody(
  request: IncomingMessage,
  visit: Visit,
  rules: ReadingRules,
): Promise<ReadBody> {
  const declared = declaredLength(request);
  if (declared === 0) return Promise.resolve(EMPTY);
  if (declared !== null && declared > rules.limit) {
    return Promise.resolve({ kind: 'over', held: [], rest: request });
  }
  if (visit.isOver || request.destroyed) return Promise.resolve(ABORTED);
  return new Promise((resolve) => {
    new BodyReading(request, visit, rules, declared ?? rules.limit, resolve).start();
  });
}

/**
 * One incoming body. However it ends, it ends once: whole, over the limit, too slow, or aborted by its client,
 * which may also happen while it waits in line for room.
 */
class BodyReading {
  readonly #request: IncomingMessage;
  readonly #visit: Visit;
  readonly #rules: ReadingRules;
  readonly #most: number;
  readonly #resolve: (body: ReadBody) => void;
  readonly #held: Buffer[] = [];
  #length = 0;
  #waiting = false;
  #ended = false;
  #pace: NodeJS.Timeout | undefined;
  #lengthBefore = 0;

  constructor(
    request: IncomingMessage,
    visit: Visit,
    rules: ReadingRules,
    most: number,
    resolve: (body: ReadBody) => void,
  ) {
    this.#request = request;
    this.#visit = visit;
    this.#rules = rules;
    this.#most = most;
    this.#resolve = resolve;
  }

  start(): void {
    const { share, minRate } = this.#rules;
    if (share !== null) share.giveUp = this.#giveUp;
    if (minRate > 0) this.#pace = setTimeout(this.#checkPace, PACE_MS);
    this.#visit.whenOver(this.#onClose);
    this.#request.on('close', this.#onClose).on('error', this.#onClose);
    this.#makeRoom(Math.min(this.#most, FIRST_BYTES), () => {
      this.#request.on('data', this.#onData).on('end', this.#onEnd);
    });
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#held.push(chunk);
    this.#length += chunk.length;
    if (this.#length > this.#rules.limit) {
      this.#request.pause();
      this.#finish({ kind: 'over', held: this.#held, rest: this.#request });
      return;
    }
    const { share } = this.#rules;
    if (share === null) return;
    share.touch();
    if (this.#length <= share.held) return;
    this.#request.pause();
    const step = Math.min(Math.max(this.#length, share.held + STEP_BYTES), this.#most);
    this.#makeRoom(step - share.held, () => this.#request.resume());
  };

  readonly #onEnd = (): void => {
    const held = this.#held;
    this.#rules.share?.shrinkTo(this.#length);
    const bytes = held.length === 1 ? held[0]! : Buffer.concat(held, this.#length);
    this.#finish({ kind: 'whole', bytes });
  };

  readonly #giveUp = (): void => this.#finish(SLOW);

  readonly #onClose = (): void => this.#finish(ABORTED);

  readonly #checkPace = (): void => {
    const least = (this.#rules.minRate * PACE_MS) / 1_000;
    // Who waits for us is not slow.
    if (!this.#waiting && this.#length - this.#lengthBefore < least) {
      this.#finish(SLOW);
      return;
    }
    this.#lengthBefore = this.#length;
    this.#pace?.refresh();
  };

  #makeRoom(bytes: number, go: () => void): void {
    const { share } = this.#rules;
    if (share === null || share.tryGrow(bytes)) {
      go();
      return;
    }
    this.#waiting = true;
    share.giveUp = null;
    share.growLater(bytes, () => {
      this.#waiting = false;
      if (this.#ended) return;
      share.giveUp = this.#giveUp;
      go();
    });
  }

  #finish(body: ReadBody): void {
    if (this.#ended) return;
    this.#ended = true;
    const { share } = this.#rules;
    if (share !== null) share.giveUp = null;
    clearTimeout(this.#pace);
    this.#visit.forget(this.#onClose);
    // Any of these left behind would keep what was read for as long as the connection lasts.
    const request = this.#request.off('data', this.#onData).off('end', this.#onEnd);
    request.off('close', this.#onClose).off('error', this.#onClose).on('error', nothing);
    this.#resolve(body);
  }
}

export function tooSlow(minRate: number): Problem {
  const detail = `the body came too slowly; at least ${minRate} bytes a second are expected`;
  return new Problem('request-timeout', detail);
}

/** The promise is settled; later events are ignored. */
function nothing(): void {}

/** What was read already, then the rest. */
export async function* resumed(
  body: Extract<ReadBody, { kind: 'over' }>,
): AsyncIterable<Uint8Array> {
  yield* body.held;
  yield* body.rest as AsyncIterable<Uint8Array>;
}

/** How long a client whose body is not wanted has to read the answer before the connection is cut. */
const UNWANTED_BODY_MS = 1_000;

/**
 * The rest of the body is left unread. Reading it only to throw it away would let a thousand clients fill the memory
 * with rubbish faster than it is collected. The connection is closed in our direction and cut a while later: cutting
 * it at once, with bytes unread, takes the answer out of the client's hands.
 */
export function refuseBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return;
  const { socket } = request;
  response.setHeader('connection', 'close');
  request.pause();
  socket.destroySoon = () => {
    socket.end();
    setTimeout(() => socket.destroy(), UNWANTED_BODY_MS).unref();
  };
}
