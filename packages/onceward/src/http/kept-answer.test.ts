import fc from 'fast-check';
import { expect, it } from 'vitest';
import { replayableHeaders } from './header-list.ts';
import { decodeAnswer, encodeAnswer, encodePassed, HTTP_OUTCOME } from './kept-answer.ts';

it('[H5] status, repeated headers and bytes come back as they were', () => {
  const name = fc.stringMatching(/^x-[a-z]{1,8}$/);
  const value = fc.stringMatching(/^[\x21-\x7e\xa1-\xff]{0,20}$/);
  const headers = fc.array(fc.tuple(name, value), { maxLength: 6 }).map((pairs) => pairs.flat());
  const answers = fc.record({
    status: fc.integer({ min: 100, max: 999 }),
    headers,
    body: fc.uint8Array({ maxLength: 300 }),
  });
  fc.assert(
    fc.property(answers, (answer) => {
      const kept = decodeAnswer(encodeAnswer(answer));
      expect(kept).toMatchObject({
        retained: true,
        status: answer.status,
        headers: answer.headers,
      });
      expect(kept?.retained && Buffer.compare(kept.body, answer.body)).toBe(0);
    }),
  );
});

it('[H9] an answer that was not kept still has its status and the reason', () => {
  for (const why of ['too_large', 'stream'] as const) {
    expect(decodeAnswer(encodePassed(201, why))).toEqual({ retained: false, status: 201, why });
  }
});

it('[E10] bytes that are no answer are read as none, never as an empty one', () => {
  const good = encodeAnswer({ status: 200, headers: ['x-a', 'b'], body: Buffer.from('c') }).bytes;
  const bad = [
    new Uint8Array(0),
    good.subarray(0, 7),
    good.subarray(0, 9),
    Uint8Array.from(good, (byte, at) => (at === 0 ? 9 : byte)),
    Uint8Array.from(good, (byte, at) => (at === 1 ? 9 : byte)),
    Uint8Array.from(good, (byte, at) => (at === 4 ? 255 : byte)),
  ];
  for (const bytes of bad) expect(decodeAnswer({ contentType: HTTP_OUTCOME, bytes })).toBeNull();
  expect(decodeAnswer({ contentType: 'text/plain', bytes: good })).toBeNull();
});

it('[H5] hop-by-hop headers go, those that Connection names too, in any case', () => {
  const kept = replayableHeaders([
    ...[
      'Connection',
      'X-Mine, close',
      'x-mine',
      '1',
      'Keep-Alive',
      '5',
      'Transfer-Encoding',
      'chunked',
    ],
    ...['Upgrade', 'h2c', 'Date', 'now', 'Set-Cookie', 'a=1', 'Authorization', 'secret'],
    ...[
      'Proxy-Authenticate',
      'Basic',
      'ETag',
      '"7"',
      'Content-Length',
      '3',
      'Cache-Control',
      'public',
    ],
  ]);
  expect(kept).toEqual(['etag', '"7"']);
});

it('[H5] each answer keeps its own headers, whatever the one before had and however a list is changed afterwards', () => {
  const body = Buffer.from('b');
  const headersOf = (headers: string[]) => {
    const kept = decodeAnswer(encodeAnswer({ status: 200, headers, body }));
    return kept?.retained === true ? kept.headers : null;
  };
  const first = ['x-a', '1', 'content-type', 'text/plain'];
  expect(headersOf(first)).toEqual(['x-a', '1', 'content-type', 'text/plain']);
  expect(headersOf([...first])).toEqual(['x-a', '1', 'content-type', 'text/plain']);
  expect(headersOf(['x-a', '2', 'content-type', 'text/plain'])).toEqual([
    'x-a',
    '2',
    'content-type',
    'text/plain',
  ]);
  expect(headersOf(['x-a', '1'])).toEqual(['x-a', '1']);
  expect(headersOf(first)).toEqual(['x-a', '1', 'content-type', 'text/plain']);
  first[1] = '3';
  expect(headersOf(['x-a', '3', 'content-type', 'text/plain'])?.[1]).toBe('3');
  expect(headersOf([])).toEqual([]);
});
