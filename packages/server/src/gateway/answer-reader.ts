import type { Readable } from 'node:stream';
import type { Share } from './buffer-budget.ts';
import type { OutgoingAnswer } from './client-answer.ts';
import { joinedValue } from './forwarded-headers.ts';

export type ReadAnswer =
  /** All of it is here. It may have gone out too. */
  | { readonly kind: 'whole'; readonly bytes: Uint8Array }
  /** It went out as it came, and no copy was kept. */
  | { readonly kind: 'passed'; readonly why: 'too_large' | 'stream' };

/** All of an answer of declared length, once there is room for it. */
export async function readDeclared(
  body: Readable,
  length: number,
  share: Share,
): Promise<ReadAnswer> {
  if (!share.tryGrow(length)) await roomFor(share, length);
  return { kind: 'whole', bytes: await wholeOf(body, length) };
}

/** The driver fails a body that is longer or shorter than it said. */
export function wholeOf(body: Readable, length: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const pieces: Uint8Array[] = [];
    body.on('data', (piece: Uint8Array) => pieces.push(piece));
    body.once('end', () =>
      resolve(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length)),
    );
    body.once('error', reject);
  });
}

/** A body that has not ended so long after its head goes out as it comes. */
const HELD_MS = 50;
const HELD_LONG_ENOUGH = Symbol('held long enough');

/**
 * An answer that does not say how long it is. It is held back for a moment: most end within it. One that does not is
 * passed on as it comes, and copied, so that it can be kept if it ends within the limit.
 */
export class OpenEndedAnswer {
  readonly #outgoing: OutgoingAnswer;
  readonly #share: Share;
  readonly #limit: number;
  /** The copy; `null` once it has been given up. */
  #pieces: Uint8Array[] | null = [];
  #length = 0;
  #begun = false;

  constructor(outgoing: OutgoingAnswer, share: Share, limit: number) {
    this.#outgoing = outgoing;
    this.#share = share;
    this.#limit = limit;
  }

  async read(body: Readable): Promise<ReadAnswer> {
    // Not a `for await`: the next piece is waited for together with the time.
    const source = body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    let timer: NodeJS.Timeout | undefined;
    const time = new Promise<typeof HELD_LONG_ENOUGH>((resolve) => {
      timer = setTimeout(resolve, HELD_MS, HELD_LONG_ENOUGH);
    });
    try {
      for (;;) {
        const coming = source.next();
        const first = this.#begun ? await coming : await Promise.race([coming, time]);
        if (first === HELD_LONG_ENOUGH) await this.#begin();
        const next = first === HELD_LONG_ENOUGH ? await coming : first;
        if (next.done === true) return this.#whole();
        await this.#add(next.value);
        // The rest has no reader.
        if (this.#pieces === null && this.#outgoing.isOver) {
          await source.return?.();
          return this.#whole();
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async #add(piece: Uint8Array): Promise<void> {
    this.#length += piece.length;
    if (this.#length > this.#limit) {
      if (!this.#begun) await this.#begin();
      this.#forget();
    } else if (this.#pieces !== null && !this.#share.tryGrow(piece.length)) {
      // What has begun does not wait for room: it may take for ever to end.
      if (this.#begun) this.#forget();
      else await roomFor(this.#share, piece.length);
    }
    this.#pieces?.push(piece);
    if (this.#begun) await this.#outgoing.write(piece);
  }

  async #begin(): Promise<void> {
    this.#begun = true;
    this.#share.giveUp = () => this.#forget();
    this.#outgoing.begin();
    for (const piece of this.#pieces ?? []) await this.#outgoing.write(piece);
  }

  #forget(): void {
    this.#pieces = null;
    this.#share.release();
  }

  #whole(): ReadAnswer {
    const pieces = this.#pieces;
    const why = this.#length > this.#limit ? 'too_large' : 'stream';
    if (pieces === null) return { kind: 'passed', why };
    this.#share.giveUp = null;
    const bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, this.#length);
    return { kind: 'whole', bytes };
  }
}

function roomFor(share: Share, bytes: number): Promise<void> {
  return new Promise((resolve) => share.growLater(bytes, resolve));
}

/** Hands the body on as it comes, until its end or until the client leaves. */
export async function passOn(
  body: Readable,
  outgoing: OutgoingAnswer,
  why: 'too_large' | 'stream',
): Promise<ReadAnswer> {
  outgoing.begin();
  for await (const piece of body as AsyncIterable<Uint8Array>) {
    // Leaving the loop ends the stream.
    if (outgoing.isOver) break;
    await outgoing.write(piece);
  }
  return { kind: 'passed', why };
}

const STREAM_TYPES =
  /^(text\/event-stream|multipart\/x-mixed-replace|application\/(x-ndjson|grpc))/i;

/** Answers that have no end worth waiting for. A body of unknown length is not yet a stream. */
export function isStream(headers: readonly string[]): boolean {
  return STREAM_TYPES.test(joinedValue(headers, 'content-type') ?? '');
}
