import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askLedger, entryText, openAccount, pay, transactionText } from './ledger-client.ts';
import { ADMIN, startServer } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
  await openAccount(server.url);
  await openAccount(server.url);
  await openAccount(server.url, 'EUR');
});
afterAll(() => server.stop());

const sides = { from: 'acct_0', to: 'acct_1' };
const one = (more: object) => transactionText({ ...sides, ...more });
const replaced = (text: string, by: string) => one({}).replace(text, by);

type Case = readonly [what: string, status: number, code: string, body: string, key?: string];

const CASES: readonly Case[] = [
  [
    'an entry without its other side',
    400,
    'INVALID_FIELD',
    replaced(',"credit":{"account_id":"acct_1"}', ''),
  ],
  ['both sides on one account', 400, 'INVALID_FIELD', one({ to: 'acct_0' })],
  [
    'a gap in the entries',
    400,
    'INVALID_SEQUENCE',
    transactionText(sides, { ...sides, sequence: 3 }),
  ],
  ['entries that begin with 0', 400, 'INVALID_SEQUENCE', one({ sequence: 0 })],
  ['an unknown account', 404, 'ACCOUNT_NOT_FOUND', one({ to: 'acct_999' })],
  ['an account id that is none', 404, 'ACCOUNT_NOT_FOUND', one({ to: 'somebody' })],
  ['an asset that nobody has', 400, 'INVALID_FIELD', one({ asset: 'DOGE' })],
  ['an asset that one side does not have', 400, 'INVALID_FIELD', one({ to: 'acct_2' })],
  ['an amount of 0', 400, 'INVALID_FIELD', one({ amount: '0' })],
  ['a negative amount', 400, 'INVALID_FIELD', one({ amount: '-5' })],
  ['a long negative amount', 400, 'INVALID_FIELD', one({ amount: `-${'5'.repeat(30)}` })],
  ['a fraction', 400, 'INVALID_FIELD', one({ amount: '1.5' })],
  [
    'a fraction that a double would round',
    400,
    'INVALID_FIELD',
    one({ amount: '99999999.9999999999' }),
  ],
  ['a fraction as text', 400, 'INVALID_FIELD', one({ amount: '"1.5"' })],
  ['an amount of 10,000 digits', 400, 'INVALID_FIELD', one({ amount: '9'.repeat(10_000) })],
  ['10,000 digits as text', 400, 'INVALID_FIELD', one({ amount: `"${'9'.repeat(10_000)}"` })],
  ['no amount', 400, 'INVALID_FIELD', one({ amount: 'null' })],
  ['a policy that does not exist', 400, 'INVALID_BALANCE_POLICY', one({ policy: 'WHATEVER' })],
  ['a forged actor', 400, 'ACTOR_NOT_ALLOWED', one({}).replace('{', '{"actor":"system:root",')],
  ['no entries', 400, 'INVALID_FIELD', '{"journal_entries":[]}'],
  ['a list instead of an object', 400, 'INVALID_FIELD', '[]'],
  ['JSON that breaks off', 400, 'INVALID_FIELD', '{"journal_entries":['],
  ['no body', 400, 'INVALID_FIELD', ''],
  ['no key', 400, 'IDEMPOTENCY_KEY_REQUIRED', one({}), ''],
  ['a key of 101 characters', 400, 'IDEMPOTENCY_KEY_INVALID', one({}), 'k'.repeat(101)],
  [
    '1,001 entries',
    400,
    'TOO_LARGE',
    `{"journal_entries":[${Array.from({ length: 1_001 }, (_, at) => entryText({ ...sides, sequence: at + 1 })).join(',')}]}`,
  ],
  ['a body over its limit', 413, 'BODY_TOO_LARGE', one({ amount: '9'.repeat(1_100_000) })],
];

describe('[L1] a transaction that is not valid', () => {
  it.each(CASES.map(([what, status, code, body, key]) => ({ what, status, code, body, key })))(
    'is refused: $what → $status $code',
    async ({ status, code, body, key = randomUUID() }) => {
      const { url } = server;
      const height = async () =>
        (await askLedger(url, '/integrity')).body.chain as { last: number };
      const before = await height();
      const headers = key === '' ? ADMIN : { ...ADMIN, 'idempotency-key': key };
      const answer = await askLedger(url, '/transaction', body, headers);
      expect(answer).toMatchObject({
        status,
        body: { error: { code, message: expect.stringMatching(/.{10}/) } },
      });
      // Nothing is in the log, the key is free, and those behind it go on.
      expect((await height()).last).toBe(before.last);
      if (key.length === 36) {
        expect((await askLedger(url, `/idempotency/${key}`)).status).toBe(404);
        expect((await pay(url, key, sides)).status).toBe(201);
      }
    },
  );

  it.each([
    ['content-type', 'text/plain', one({})],
    ['content-encoding', 'gzip', gzipSync(one({}))],
  ])('is refused as what it is not with %s: %s', async (name, value, body) => {
    const key = randomUUID();
    const headers = { 'content-type': 'application/json', ...ADMIN, 'idempotency-key': key };
    const response = await fetch(`${server.url}/transaction`, {
      method: 'POST',
      headers: { ...headers, [name]: value },
      body: body as BodyInit,
    });
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ error: { code: 'UNSUPPORTED_MEDIA_TYPE' } });
    expect((await pay(server.url, key, sides)).status).toBe(201);
  });

  it('is refused however deep its JSON is, and the server goes on', async () => {
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    const long = '[12345678901234567890,'.repeat(30_000) + ']'.repeat(30_000);
    for (const body of [deep, long, one({ amount: deep })]) {
      const key = randomUUID();
      const headers = { ...ADMIN, 'idempotency-key': key };
      expect(await askLedger(server.url, '/transaction', body, headers)).toMatchObject({
        status: 400,
        body: { error: { code: 'INVALID_FIELD' } },
      });
      expect((await pay(server.url, key, sides)).status).toBe(201);
    }
  });

  it.each([
    ['{"category":"WALLET"}', 400, 'INVALID_FIELD'],
    ['{"category":"wall et","asset":"USD"}', 400, 'INVALID_FIELD'],
    ['{"category":"WALLET","asset":1234567890123456789}', 400, 'INVALID_FIELD'],
    ['{"category":"WALLET","asset":"USD","actor":"user:1"}', 400, 'ACTOR_NOT_ALLOWED'],
  ])('nor is the account %s opened', async (body, status, code) => {
    expect(await askLedger(server.url, '/account', body)).toMatchObject({
      status,
      body: { error: { code } },
    });
  });

  it.each([
    ['/account/acct_999', 404, 'ACCOUNT_NOT_FOUND'],
    ['/account/none', 404, 'ACCOUNT_NOT_FOUND'],
    ['/account/none/ledger', 404, 'ACCOUNT_NOT_FOUND'],
    ['/account/acct_0/ledger?limit=0', 400, 'INVALID_FIELD'],
    ['/account/acct_0/ledger?limit=many', 400, 'INVALID_FIELD'],
    ['/account/acct_0/ledger?limit=0x10', 400, 'INVALID_FIELD'],
    ['/account/acct_0/ledger?limit=5&limit=6', 400, 'INVALID_FIELD'],
    ['/account/acct_0/ledger?cursor=nowhere', 400, 'INVALID_FIELD'],
    ['/transaction/tx_999_0', 404, 'TRANSACTION_NOT_FOUND'],
    ['/transaction/none', 404, 'TRANSACTION_NOT_FOUND'],
    ['/transaction/tx_2_0', 404, 'TRANSACTION_NOT_FOUND'],
  ])('[L5] and %s shows nothing', async (path, status, code) => {
    expect(await askLedger(server.url, path)).toMatchObject({ status, body: { error: { code } } });
  });
});
