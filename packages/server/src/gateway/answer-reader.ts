import type { Readable } from 'node:stream';
import type { BufferBudget } from './buffer-budget.ts';
import { joinedValue } from './forwarded-headers.ts';

export type ReadAnswer =
  | { readonly kind: 'whole'; readonly bytes: Uint8Array; release(): void }
  /** It went on beyond the limit: what was read so far, and then the rest. */
  | { readonly kind: 'over'; readonly pieces: AsyncIterable<Uint8Array>; release(): void };

/** Reads answers that are to be kept, within a budget that all of them share. */
export class AnswerReader {
  readonly #budget: BufferBudget;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  /** `release` gives the room back, once the bytes have gone out. */
  async read(body: Readable, declared: number, limit: number): Promise<ReadAnswer> {
    const wanted = Number.isNaN(declared) ? limit : declared;
    const taken = this.#budget.take(wanted);
    const share = taken instanceof Promise ? await taken : taken;
    const { release } = share;
    try {
      if (declared <= limit)
        return { kind: 'whole', bytes: await wholeOf(body, declared), release };
      const pieces: Uint8Array[] = [];
      let length = 0;
      // Not a `for await`: leaving one early destroys the stream, and here it may have to go on.
      const source = body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
      for (let next = await source.next(); next.done !== true; next = await source.next()) {
        pieces.push(next.value);
        length += next.value.length;
        if (length > limit) return { kind: 'over', pieces: continued(pieces, source), release };
      }
      share.shrinkTo(length);
      const bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length);
      return { kind: 'whole', bytes, release };
    } catch (error) {
      release();
      throw error;
    }
  }
}

/** All of an answer of declared length. The driver fails one that is longer or shorter than it said. */
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

async function* continued(
  pieces: readonly Uint8Array[],
  source: AsyncIterator<Uint8Array>,
): AsyncIterable<Uint8Array> {
  yield* pieces;
  yield* { [Symbol.asyncIterator]: () => source };
}

const STREAM_TYPES =
  /^(text\/event-stream|multipart\/x-mixed-replace|application\/(x-ndjson|grpc))/i;

/** Answers that have no end worth waiting for. A body of unknown length is not yet a stream. */
export function isStream(headers: readonly string[]): boolean {
  return STREAM_TYPES.test(joinedValue(headers, 'content-type') ?? '');
}
