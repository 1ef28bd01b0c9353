import { expect, it } from 'vitest';
import { readKey } from './key-header.ts';
import { nodeKeyLines, webKeyLines } from './request-facts.ts';

const lines = (standard?: string, alias?: string) => ({ standard, alias, repeated: false });

it('[H1] a bare key, a structured string and one with parameters are the same key', () => {
  for (const value of ['abc-1', '"abc-1"', ' abc-1 ', '"abc-1";v=1', '"abc-1" ; a']) {
    expect(readKey(lines(value), 'http')).toEqual({ kind: 'key', key: 'abc-1', sent: 'abc-1' });
  }
});

it('[H1] a structured string may escape quotes and backslashes, and nothing else', () => {
  expect(readKey(lines('"a\\"b\\\\c"'), 'ledger')).toMatchObject({ key: 'a"b\\c' });
  expect(readKey(lines('"a\\bc"'), 'ledger')).toMatchObject({ kind: 'invalid' });
  expect(readKey(lines('"abc'), 'ledger')).toMatchObject({ kind: 'invalid' });
  expect(readKey(lines('"abc" def'), 'ledger')).toMatchObject({ kind: 'invalid' });
});

it('[H1] the two names agree or conflict; a bad one is bad whichever it is', () => {
  expect(readKey(lines('one', '"one"'), 'http')).toMatchObject({ kind: 'key' });
  expect(readKey(lines('one', 'two'), 'http')).toMatchObject({ kind: 'conflict' });
  expect(readKey(lines('one', 'not valid'), 'http')).toMatchObject({ kind: 'invalid' });
  expect(readKey(lines(undefined, 'one'), 'http')).toMatchObject({ key: 'one' });
  expect(readKey(lines(), 'http')).toEqual({ kind: 'none' });
});

it('[H2] the reason never repeats the key', () => {
  for (const profile of ['http', 'sync', 'jobs', 'ledger', 'stripe'] as const) {
    const reading = readKey(lines('secret\u00e9key'), profile);
    expect(reading.kind).toBe('invalid');
    expect(JSON.stringify(reading)).not.toContain('secret');
  }
});

it('[H1] repeated lines are distinguished from a comma in one line, where Node still has the lines', () => {
  const twice = {
    headers: { 'idempotency-key': 'a, b' },
    rawHeaders: ['Idempotency-Key', 'a', 'IDEMPOTENCY-KEY', 'b'],
  };
  const once = { headers: { 'idempotency-key': 'a, b' }, rawHeaders: ['Idempotency-Key', 'a, b'] };
  expect(nodeKeyLines(twice).repeated).toBe(true);
  expect(nodeKeyLines(once).repeated).toBe(false);
  expect(readKey(nodeKeyLines(once), 'http')).toMatchObject({ kind: 'invalid' });
});

it('[H1] web headers show repeated lines as a comma outside quotes', () => {
  expect(
    webKeyLines(
      new Headers([
        ['idempotency-key', 'a'],
        ['idempotency-key', 'b'],
      ]),
    ).repeated,
  ).toBe(true);
  expect(webKeyLines(new Headers([['idempotency-key', '"a,b"']])).repeated).toBe(false);
});
