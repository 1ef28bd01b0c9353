import type { Outcome } from '../engine/record.ts';
import { type HttpAnswer, NO_BYTES, TextAnswer } from './answer.ts';
import { type HeaderList, replayableHeaders } from './header-list.ts';

export const HTTP_OUTCOME = 'application/vnd.onceward.http';

/** An answer as a record keeps it. */
export type KeptAnswer =
  | ({ readonly retained: true } & HttpAnswer)
  | { readonly retained: false; readonly status: number; readonly why: 'too_large' | 'stream' };

const VERSION = 1;
const WHOLE = 0;
const TOO_LARGE = 1;
const STREAM = 2;
/** Version, form, status (2), length of the head (4). */
const PREFIX = 8;

/**
 * Layout: version (1 byte), form (1), status (2), length of the head (4), head, body. The head holds names and
 * values a line each, in Latin-1, which is what header fields are made of and which holds no line feed.
 */
export function encodeAnswer(answer: HttpAnswer): Outcome {
  const head = headOf(answer.headers);
  const bodyAt = PREFIX + head.length;
  const body = answer instanceof TextAnswer ? answer.text : answer.body;
  const bytes = Buffer.allocUnsafe(bodyAt + Buffer.byteLength(body));
  writePrefix(bytes, WHOLE, answer.status, head.length);
  bytes.write(head, PREFIX, 'latin1');
  if (typeof body === 'string') bytes.write(body, bodyAt);
  else bytes.set(body, bodyAt);
  return { contentType: HTTP_OUTCOME, bytes };
}

/** Answers of one route have the same headers again and again. */
let lastHeaders: HeaderList = [];
let lastHead = '';

function headOf(headers: HeaderList): string {
  if (!isSame(headers, lastHeaders)) {
    lastHead = replayableHeaders(headers).join('\n');
    lastHeaders = [...headers];
  }
  return lastHead;
}

function isSame(some: HeaderList, others: HeaderList): boolean {
  if (some.length !== others.length) return false;
  for (let at = 0; at < some.length; at += 1) if (some[at] !== others[at]) return false;
  return true;
}

export function encodePassed(status: number, why: 'too_large' | 'stream'): Outcome {
  const bytes = Buffer.allocUnsafe(PREFIX);
  writePrefix(bytes, why === 'stream' ? STREAM : TOO_LARGE, status, 0);
  return { contentType: HTTP_OUTCOME, bytes };
}

function writePrefix(bytes: Buffer, form: number, status: number, headLength: number): void {
  bytes[0] = VERSION;
  bytes[1] = form;
  bytes.writeUInt16BE(status, 2);
  bytes.writeUInt32BE(headLength, 4);
}

/** The near tier hands out one outcome object many times; its answer is read once. */
const decoded = new WeakMap<Outcome, KeptAnswer>();

/** `null`: the bytes are not an answer that this version can read. */
export function decodeAnswer(outcome: Outcome): KeptAnswer | null {
  const known = decoded.get(outcome);
  if (known !== undefined) return known;
  const answer = outcome.contentType === HTTP_OUTCOME ? decode(outcome.bytes) : null;
  if (answer !== null) decoded.set(outcome, answer);
  return answer;
}

function decode(bytes: Uint8Array): KeptAnswer | null {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < PREFIX || buffer[0] !== VERSION) return null;
  const status = buffer.readUInt16BE(2);
  const bodyAt = PREFIX + buffer.readUInt32BE(4);
  if (bodyAt > buffer.length) return null;
  switch (buffer[1]) {
    case WHOLE: {
      const head = buffer.toString('latin1', PREFIX, bodyAt);
      const headers = head === '' ? [] : head.split('\n');
      const body = bodyAt === buffer.length ? NO_BYTES : buffer.subarray(bodyAt);
      return headers.length % 2 === 0 ? { retained: true, status, headers, body } : null;
    }
    case TOO_LARGE:
      return { retained: false, status, why: 'too_large' };
    case STREAM:
      return { retained: false, status, why: 'stream' };
    default:
      return null;
  }
}
