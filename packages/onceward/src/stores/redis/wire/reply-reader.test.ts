import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Reply } from '../redis-driver.ts';
import { ReplyReader } from './reply-reader.ts';

function readPieces(pieces: readonly Buffer[]): Reply[] {
  const found: Reply[] = [];
  const reader = new ReplyReader((reply) => found.push(reply));
  for (const piece of pieces) reader.read(piece);
  return found;
}

function cut(bytes: Buffer, length: number): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += length) pieces.push(bytes.subarray(at, at + length));
  return pieces;
}

/** As Redis would write it. */
function spelled(reply: Reply): Buffer {
  if (reply === null) return Buffer.from('$-1\r\n');
  if (typeof reply === 'number') return Buffer.from(`:${reply}\r\n`);
  if (reply instanceof Error) return Buffer.from(`-${reply.message}\r\n`);
  if (Buffer.isBuffer(reply)) {
    return Buffer.concat([Buffer.from(`$${reply.length}\r\n`), reply, Buffer.from('\r\n')]);
  }
  const items = reply as readonly Reply[];
  return Buffer.concat([Buffer.from(`*${items.length}\r\n`), ...items.map(spelled)]);
}

const { reply: aReply } = fc.letrec<{ reply: Reply }>((tie) => ({
  reply: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.maxSafeInteger(),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom('ERR no', 'WRONGTYPE not that', 'MOVED 1 127.0.0.1:1').map((m) => new Error(m)),
    fc.array(tie('reply'), { maxLength: 5 }),
  ),
}));

describe('replies', () => {
  it('are read as they were written, wherever they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(aReply, { maxLength: 6 }),
        fc.integer({ min: 1, max: 40 }),
        (all, by) => {
          const bytes = Buffer.concat(all.map(spelled));
          expect(readPieces(cut(bytes, by))).toEqual(all);
          expect(readPieces([bytes])).toEqual(all);
        },
      ),
      { numRuns: 300 },
    );
  });

  it.each([1, 2, 3, 5, 7])('of every kind come through in pieces of %i bytes', (by) => {
    const bytes = Buffer.from(
      '+OK\r\n:-12\r\n*-1\r\n*0\r\n$0\r\n\r\n*2\r\n$2\r\n\r\n\r\n-ERR no\r\n:0\r\n',
    );
    expect(readPieces(cut(bytes, by))).toEqual([
      Buffer.from('OK'),
      -12,
      null,
      [],
      Buffer.alloc(0),
      [Buffer.from('\r\n'), new Error('ERR no')],
      0,
    ]);
  });

  it('of 8 MiB, and an array of 100,000 texts, are read in no more time for being in pieces of 1 KiB', () => {
    const long = Buffer.alloc(8 * 1_024 * 1_024, 7);
    const many = Array.from({ length: 100_000 }, (_, at) => Buffer.from(`text ${at}`));
    const bytes = Buffer.concat([spelled(long), spelled(many)]);
    const began = performance.now();
    const found = readPieces(cut(bytes, 1_024));
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(long.equals(found[0] as Buffer)).toBe(true);
    expect((found[1] as Buffer[]).at(-1)?.toString()).toBe('text 99999');
  });

  it.each([
    ['HTTP', 'HTTP/1.1 400 Bad Request\r\n'],
    ['a third version of the protocol', '_\r\n'],
    ['a line without a return', ':1\n'],
    ['an empty line', '\r\n'],
    ['nothing but an end', '\n'],
    ['a number that is none', ':one\r\n'],
    ['a number without digits', ':\r\n'],
    ['a number that is too large', ':99999999999999999999\r\n'],
    ['a length that is none', '$1e3\r\n'],
    ['a text of a petabyte', '$1000000000000000\r\n'],
    ['a text that goes on', '$2\r\nabcd\r\n'],
    ['arrays in arrays without end', '*1\r\n'.repeat(100)],
    ['a line without an end', '+'.padEnd(100_000, 'x')],
  ])('are not made of %s', (_what, text) => {
    for (const by of [1, text.length]) {
      expect(() => readPieces(cut(Buffer.from(text), by))).toThrow('is not Redis');
    }
  });
});
