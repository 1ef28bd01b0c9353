import { type Captured, type HttpAnswer, NO_BYTES } from '../answer.ts';
import { findHeader, type HeaderList } from '../header-list.ts';
import type { HttpSettings } from '../options.ts';

type Rules = Pick<HttpSettings<never>, 'maxKeptBytes' | 'streams'>;
type Piece = Uint8Array | string;

/** An answer whose body is still to be read. */
export interface OpenAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: AsyncIterable<Piece>;
}

/** What is sent in place of the inspected body. */
export type Outgoing =
  | { readonly kind: 'whole'; readonly answer: HttpAnswer }
  /** Goes out as it comes. */
  | { readonly kind: 'passing'; readonly body: PassingBody };

/** Receives what became of the body; its end waits for `settled`. */
export interface BodyWatch {
  report(captured: Captured): void;
  settled(): Promise<unknown>;
}

/**
 * Inspects a body that is read from a source: all of it, when it is there within one turn of the event loop or has
 * declared a length that is kept; else it is handed on as it comes. A source that fails at once fails here.
 */
export async function inspectBody(
  open: OpenAnswer,
  rules: Rules,
  watch: BodyWatch,
): Promise<Outgoing> {
  const source = open.body[Symbol.asyncIterator]();
  const declared = Number(findHeader(open.headers, 'content-length') ?? Number.NaN);
  const held: Uint8Array[] = [];
  let length = 0;
  let pending: Promise<IteratorResult<Piece>> | null = null;
  const turn = declared <= rules.maxKeptBytes ? null : nextTurn();
  while (!(declared > rules.maxKeptBytes)) {
    pending = source.next();
    const next = turn === null ? await pending : await Promise.race([pending, turn]);
    if (next === undefined) break;
    pending = null;
    if (next.done === true) {
      const { status, headers } = open;
      const answer = { status, headers, body: join(held, length) };
      watch.report({ kind: 'whole', ...answer });
      return { kind: 'whole', answer };
    }
    const bytes = toBytes(next.value);
    held.push(bytes);
    length += bytes.length;
    if (length > rules.maxKeptBytes) break;
  }
  return { kind: 'passing', body: new PassingBody(open, rules, watch, { held, pending, source }) };
}

interface Rest {
  readonly held: readonly Uint8Array[];
  readonly pending: Promise<IteratorResult<Piece>> | null;
  readonly source: AsyncIterator<Piece>;
}

/**
 * Hands the pieces of a body on, with a copy made where streams are kept and as long as it is small enough. Before
 * it says that it has ended, the record is settled.
 */
export class PassingBody implements AsyncIterableIterator<Uint8Array> {
  readonly #open: OpenAnswer;
  readonly #rules: Rules;
  readonly #watch: BodyWatch;
  readonly #source: AsyncIterator<Piece>;
  readonly #ready: Uint8Array[];
  #pending: Promise<IteratorResult<Piece>> | null;
  #copy: Uint8Array[] | null = null;
  #length = 0;
  #isOver = false;

  constructor(open: OpenAnswer, rules: Rules, watch: BodyWatch, rest: Rest) {
    this.#open = open;
    this.#rules = rules;
    this.#watch = watch;
    this.#source = rest.source;
    this.#ready = [...rest.held];
    this.#pending = rest.pending;
    // The reader of the body gets this failure; until then it is not unhandled.
    this.#pending?.catch(ignore);
    if (rules.streams === 'keep') this.#copy = [];
    for (const bytes of rest.held) this.#note(bytes);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const ready = this.#ready.shift();
    if (ready !== undefined) return { done: false, value: ready };
    if (this.#isOver) return { done: true, value: undefined };
    let next: IteratorResult<Piece>;
    try {
      next = await (this.#pending ?? this.#source.next());
      this.#pending = null;
    } catch (error) {
      await this.#conclude({ kind: 'broken', status: this.#open.status });
      throw error;
    }
    if (next.done === true) {
      await this.#conclude(this.#ended());
      return { done: true, value: undefined };
    }
    const bytes = toBytes(next.value);
    this.#note(bytes);
    return { done: false, value: bytes };
  }

  /** The reader cancelled. The source is cancelled too; effects remain. */
  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    const { status } = this.#open;
    await this.#conclude({ kind: 'passed', status, why: 'stream' });
    await this.#source.return?.();
    return { done: true, value: undefined };
  }

  async #conclude(captured: Captured): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#watch.report(captured);
    await this.#watch.settled();
  }

  #note(bytes: Uint8Array): void {
    this.#length += bytes.length;
    if (this.#length > this.#rules.maxKeptBytes) this.#copy = null;
    this.#copy?.push(bytes);
  }

  #ended(): Captured {
    const { status, headers } = this.#open;
    if (this.#copy !== null) {
      return { kind: 'whole', status, headers, body: join(this.#copy, this.#length) };
    }
    const isTooLong = this.#length > this.#rules.maxKeptBytes;
    return { kind: 'passed', status, why: isTooLong ? 'too_large' : 'stream' };
  }
}

function toBytes(piece: Piece): Uint8Array {
  return typeof piece === 'string' ? Buffer.from(piece) : piece;
}

function join(pieces: readonly Uint8Array[], length: number): Uint8Array {
  if (pieces.length === 0) return NO_BYTES;
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length);
}

function nextTurn(): Promise<undefined> {
  return new Promise((resolve) => {
    setImmediate(resolve, undefined);
  });
}

function ignore(): void {}
