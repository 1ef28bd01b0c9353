import type { IdempotencyContext } from '../idempotency-context.ts';

/** What the guard needs to know of a request, in no framework's words. */
export interface RequestFacts<Request> {
  /** The framework's own request: what the hooks of the options are given. */
  readonly request: Request;
  /** Upper case. */
  readonly method: string;
  /** The path and query as the client sent them. */
  readonly target: string;
  /** The route that the framework matched, with its parameters unfilled; the bare path where it has none. */
  readonly route: string;
  readonly contentType: string | undefined;
  readonly keyLines: KeyLines;
  /** Puts the context where the handler, and hooks that run on every answer, read it. */
  readonly attach?: (request: Request, context: IdempotencyContext) => void;
}

/** The lines in which a key may come. */
export interface KeyLines {
  readonly standard: string | undefined;
  /** The `X-` spelling. */
  readonly alias: string | undefined;
  /** One of the two came more than once. */
  readonly repeated: boolean;
  /** When the client says that it first sent the request. */
  readonly firstSent?: string | undefined;
}

const NO_KEY: KeyLines = {
  standard: undefined,
  alias: undefined,
  repeated: false,
  firstSent: undefined,
};

/** The part of Node's `IncomingMessage` that is read here. */
export interface NodeHeaders {
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined };
  readonly rawHeaders: readonly string[];
}

/** Node joins repeated lines with a comma, so only a value with a comma needs its raw lines read. */
export function nodeKeyLines(message: NodeHeaders): KeyLines {
  const standard = single(message.headers['idempotency-key']);
  const alias = single(message.headers['x-idempotency-key']);
  const firstSent = either(
    single(message.headers['idempotency-first-sent']),
    single(message.headers['repeatability-first-sent']),
  );
  if (standard === undefined && alias === undefined && firstSent === undefined) return NO_KEY;
  const repeated =
    (standard?.includes(',') === true && countLines(message, 'idempotency-key') > 1) ||
    (alias?.includes(',') === true && countLines(message, 'x-idempotency-key') > 1);
  return { standard, alias, repeated, firstSent };
}

/** Web headers have lost the lines already: a comma outside quotes is taken for the seam of two. */
export function webKeyLines(headers: { get(name: string): string | null }): KeyLines {
  const standard = headers.get('idempotency-key') ?? undefined;
  const alias = headers.get('x-idempotency-key') ?? undefined;
  const firstSent = either(
    headers.get('idempotency-first-sent') ?? undefined,
    headers.get('repeatability-first-sent') ?? undefined,
  );
  if (standard === undefined && alias === undefined && firstSent === undefined) return NO_KEY;
  return { standard, alias, repeated: hasSeam(standard) || hasSeam(alias), firstSent };
}

/** The same header under two names. Two values that differ are read as one that makes no sense. */
function either(one: string | undefined, other: string | undefined): string | undefined {
  if (one === undefined || other === undefined || one === other) return one ?? other;
  return `${one}, ${other}`;
}

function single(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' || value === undefined ? value : value.join(', ');
}

function countLines(message: NodeHeaders, name: string): number {
  const { rawHeaders } = message;
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === name) count += 1;
  }
  return count;
}

function hasSeam(value: string | undefined): boolean {
  return value?.replace(/"(?:[^"\\]|\\.)*"/g, '').includes(',') === true;
}

/** A target without its query. */
export function pathOf(target: string): string {
  const end = target.indexOf('?');
  return end === -1 ? target : target.slice(0, end);
}
