import { type Captured, type HttpAnswer, isBodiless } from './answer.ts';
import type { Exchange } from './exchange.ts';
import type { HeaderList } from './header-list.ts';
import type { IdempotencyContext } from './idempotency-context.ts';
import type { HttpSettings } from './options.ts';
import { inspectBody, type PassingBody } from './request/body-source.ts';

type Rules = Pick<HttpSettings<never>, 'maxKeptBytes' | 'streams'>;
type Handler = (context: IdempotencyContext | null) => Response | Promise<Response>;

/** A handler that returns a web `Response`. */
export class WebExchange implements Exchange {
  readonly #signal: AbortSignal | undefined;
  readonly #rules: Rules;
  readonly #handler: Handler;
  #own: Response | null = null;
  #keptUntil: string | null = null;
  #sendEarly: (response: Response) => void = ignore;
  #protecting: Promise<unknown> = Promise.resolve();

  constructor(signal: AbortSignal | undefined, rules: Rules, handler: Handler) {
    this.#signal = signal;
    this.#rules = rules;
    this.#handler = handler;
  }

  hasLeft(): boolean {
    return this.#signal?.aborted === true;
  }

  kept(until: string): void {
    this.#keptUntil = until;
  }

  /** The response to send: as soon as a stream begins, else when everything is settled. */
  respond(protect: () => Promise<HttpAnswer | null>): Promise<Response> {
    return new Promise((resolve, reject) => {
      this.#sendEarly = resolve;
      const protecting = protect();
      this.#protecting = protecting.catch(ignore);
      protecting.then((instead) => resolve(this.#outgoing(instead)), reject);
    });
  }

  #outgoing(instead: HttpAnswer | null): Response {
    const own = this.#own;
    if (instead !== null || own === null) return toResponse(instead!);
    if (this.#keptUntil !== null) own.headers.set('idempotency-kept-until', this.#keptUntil);
    return own;
  }

  async run(context: IdempotencyContext | null): Promise<Captured> {
    const response = await this.#handler(context);
    const marked = context !== null;
    const { status, body } = response;
    const headers = headerList(response.headers);
    if (body === null) {
      this.#own = rebuild(response, null, marked);
      return { kind: 'whole', status, headers, body: new Uint8Array(0) };
    }
    return new Promise((resolve, reject) => {
      const open = { status, headers, body: body as AsyncIterable<Uint8Array> };
      const watch = { report: resolve, settled: () => this.#protecting };
      inspectBody(open, this.#rules, watch).then((outgoing) => {
        if (outgoing.kind === 'whole') {
          this.#own = rebuild(response, outgoing.answer.body, marked);
        } else {
          this.#own = rebuild(response, toStream(outgoing.body), marked);
          this.#sendEarly(this.#own);
        }
      }, reject);
    });
  }
}

export function toResponse(answer: HttpAnswer): Response {
  const { status } = answer;
  const headers = new Headers();
  for (let i = 0; i < answer.headers.length; i += 2) {
    headers.append(answer.headers[i]!, answer.headers[i + 1]!);
  }
  const isEmpty = isBodiless(status) || answer.body.length === 0;
  return new Response(isEmpty ? null : asBody(answer.body), { status, headers });
}

function rebuild(
  response: Response,
  body: Uint8Array | ReadableStream | null,
  marked: boolean,
): Response {
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  if (marked) headers.set('idempotency-replayed', 'false');
  const init = { status, statusText, headers };
  return new Response(body instanceof Uint8Array ? asBody(body) : body, init);
}

/** The type of a body excludes views on shared memory, which none of these are. */
function asBody(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes as Uint8Array<ArrayBuffer>;
}

function headerList(headers: Headers): HeaderList {
  const list: string[] = [];
  for (const [name, value] of headers) list.push(name, value);
  return list;
}

function toStream(body: PassingBody): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        const next = await body.next();
        if (next.done) controller.close();
        else controller.enqueue(next.value);
      },
      async cancel() {
        await body.return();
      },
    },
    { highWaterMark: 0 },
  );
}

/** The bytes of a request, from a clone, so that the handler finds them untouched. */
export async function webBody(request: Request, limit: number): Promise<Uint8Array | 'too_large'> {
  if (request.body === null) return new Uint8Array(0);
  if (Number(request.headers.get('content-length') ?? 0) > limit) return 'too_large';
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of request.clone().body as unknown as AsyncIterable<Uint8Array>) {
    length += piece.length;
    if (length > limit) return 'too_large';
    pieces.push(piece);
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length);
}

/** Path and query of a web request. */
export function webTarget(request: Request): string {
  const from = request.url.indexOf('/', request.url.indexOf('://') + 3);
  return from === -1 ? '/' : request.url.slice(from);
}

function ignore(): void {}
