import { Random } from '../random.ts';
import type { Answer } from './answer.ts';

/** Something a client wants done once. Without a key it is a plain request, which no guard looks after. */
export interface Operation {
  /** The key, where there is one. No two operations of a run share a name. */
  readonly name: string;
  readonly keyed: boolean;
  readonly method: 'GET' | 'POST';
  readonly target: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
  /** With which of these a retry after the round must be answered; with anything, if there are none. */
  readonly ends: readonly number[];
  /** Which run an answer is about; `null` where it is about none. */
  runOf(answer: Answer): string | null;
  /** Whether only one caller may get the run's answer, as with a claim; else all may. */
  readonly toldOnce: boolean;
}

/** A run that is identified by all the bytes of its answer. */
export function byItsBytes(answer: Answer): string | null {
  const isDone = answer.whole && answer.status >= 200 && answer.status < 300;
  return isDone ? `${answer.status} ${answer.body.toString('base64')}` : null;
}

export interface Spelling {
  readonly framing?: 'declared' | 'chunked';
  readonly more?: readonly (readonly [string, string])[];
}

export interface Spelled {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** The operation as bytes. All spellings mean the same request; chance chooses between them. */
export function spell(
  operation: Operation,
  host: string,
  random: Random,
  { framing = 'declared', more = [] }: Spelling = {},
): Spelled {
  const { method, target, keyed, name, body } = operation;
  const headers: (readonly [string, string])[] = [
    ...operation.headers,
    ...(keyed ? [['Idempotency-Key', name] as const] : []),
    ...more,
  ];
  const bytes = Buffer.from(body);
  if (framing === 'chunked') headers.push(['Transfer-Encoding', 'chunked']);
  else if (method !== 'GET') headers.push(['Content-Length', String(bytes.length)]);
  const lines = shuffled(headers, random).map(([header, value]) => {
    return `${random.pick([header, header.toLowerCase(), header.toUpperCase()])}: ${value}\r\n`;
  });
  const head = Buffer.from(
    `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('')}\r\n`,
  );
  return { head, body: framing === 'chunked' ? chunked(bytes, random) : bytes };
}

export function wholeOf({ head, body }: Spelled): Buffer {
  return Buffer.concat([head, body]);
}

/** Any spelling that is in order, drawn from the operation alone: a retry later sends the same bytes. */
export function plainly(operation: Operation, host: string): Buffer {
  return wholeOf(spell(operation, host, new Random(1)));
}

const EXTENSIONS = ['', '', ';a', ';a=b', ';name="quoted value"'] as const;
const TRAILERS = ['', '', 'X-Trailer: 1\r\n', 'X-Sum: abc\r\nX-More: 2\r\n'] as const;

/** A body in chunks of odd sizes, with whatever else the grammar lets them carry. */
export function chunked(bytes: Buffer, random: Random): Buffer {
  const pieces: Buffer[] = [];
  const largest = random.pick([1, 7, 64, 4_096, 70_000]);
  const least = bytes.length / 400;
  for (let at = 0; at < bytes.length; ) {
    const size = Math.min(bytes.length - at, Math.ceil(least) + random.below(largest));
    const hex = size.toString(16);
    const spelled = random.pick([hex, hex.toUpperCase(), `00${hex}`]);
    pieces.push(Buffer.from(`${spelled}${random.pick(EXTENSIONS)}\r\n`));
    pieces.push(bytes.subarray(at, at + size), Buffer.from('\r\n'));
    at += size;
  }
  pieces.push(Buffer.from(`0\r\n${random.pick(TRAILERS)}\r\n`));
  return Buffer.concat(pieces);
}

function shuffled<T>(list: readonly T[], random: Random): T[] {
  const rest = [...list];
  const drawn: T[] = [];
  while (rest.length > 0) drawn.push(...rest.splice(random.below(rest.length), 1));
  return drawn;
}
