import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  askLedger,
  balanceOf,
  newCredential,
  openAccount,
  transactionText,
} from './ledger-client.ts';
import { newRpcKey } from './ledger-rpc.ts';
import { ADMIN, startServer, temporaryFolder } from './running-program.ts';

const folder = temporaryFolder();
let server: Awaited<ReturnType<typeof startServer>>;
let url: string;

async function start(): Promise<void> {
  server = await startServer({ ONCEWARD_DATA: folder.path });
  ({ url } = server);
}

beforeAll(async () => {
  await start();
  await openAccount(url);
  await openAccount(url);
});
afterAll(async () => {
  await server.stop();
  folder.remove();
});

type Json = Record<string, unknown>;

/** Sends a body as it is written. */
async function rpc(method: string, body: string): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${url}/onceward.ledger.v1.${method}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...ADMIN },
    body,
  });
  return { status: response.status, body: (await response.json()) as Json };
}

const base64Key = () => Buffer.from(newRpcKey()).toString('base64');

async function newOrganization(): Promise<string> {
  const { body } = await rpc('AdminService/CreateOrganization', '{"name":"Acme"}');
  return String(body.organization);
}

const sides = '"debit":{"account_id":"acct_0"},"credit":{"account_id":"acct_1"}';

describe('[L11] the request of a key', () => {
  const LONG = '123456789012345678901234567890';

  it.each([
    [
      'a number',
      `{"journal_entries":[{"sequence":1,"type":"PAY","asset":"USD","amount":5,${sides}}]}`,
    ],
    [
      'a number that no double holds',
      `{"journal_entries":[{"sequence":1,"type":"PAY","asset":"USD","amount":${LONG},${sides}}]}`,
    ],
    [
      'text',
      `{"journal_entries":[{"sequence":1,"type":"PAY","asset":"USD","amount":"${LONG}",${sides}}]}`,
    ],
    [
      'names in small letters',
      `{"journal_entries":[{"sequence":1,"type":"pay","asset":"usd","amount":5,${sides}}]}`,
    ],
    ['a policy', transactionText({ from: 'acct_0', to: 'acct_1', amount: '7' })],
    [
      'a policy that is null',
      `{"journal_entries":[{"sequence":1,"type":"PAY","asset":"USD","amount":5,"debit":{"account_id":"acct_0","balance_policy":null},"credit":{"account_id":"acct_1"}}]}`,
    ],
    [
      'two entries that differ',
      `{"journal_entries":[{"sequence":1,"type":"PAY","asset":"USD","amount":${LONG},${sides}},{"sequence":2,"type":"PAY","asset":"USD","amount":"1",${sides}}]}`,
    ],
  ])('is shown as it was sent, with %s', async (_, sent) => {
    const key = randomUUID();
    const headers = { ...ADMIN, 'idempotency-key': key };
    expect((await askLedger(url, '/transaction', sent, headers)).status).toBe(201);
    const response = await fetch(`${url}/idempotency/${key}`, { headers: ADMIN });
    const text = await response.text();
    expect(text).toContain(`"request":${sent},"response"`);
    expect(JSON.parse(text)).toMatchObject({ idempotency_key: key, status: 'committed' });
  });

  it('is shown with its digits if it was rejected, and after a kill', async () => {
    const poor = await openAccount(url);
    const sent = transactionText({
      from: poor,
      to: 'acct_1',
      amount: LONG,
      policy: 'ALWAYS_POSITIVE',
    });
    const headers = { ...ADMIN, 'idempotency-key': 'rejected' };
    expect((await askLedger(url, '/transaction', sent, headers)).status).toBe(422);
    await server.program.stop('SIGKILL');
    await start();
    const response = await fetch(`${url}/idempotency/rejected`, { headers: ADMIN });
    expect(await response.text()).toContain(`"request":${sent},"response"`);
  });
});

describe('[L11] a member that is unknown, misspelt or there twice', () => {
  const good = transactionText({ from: 'acct_0', to: 'acct_1', amount: '3' });

  it.each([
    ['memo', good.replace('{"journal', '{"memo":"x","journal')],
    ['ammount', good.replace('"amount"', '"ammount"')],
    ['amount', good.replace('"amount":3', '"amount":1,"amount":3')],
    ['amount', good.replace('"amount":3', '"amount":1 ,"\\u0061mount" :3')],
    [
      'account_id',
      good.replace('"account_id":"acct_1"', '"account_id":"acct_0","account_id":"acct_1"'),
    ],
    ['journal_entries', `{"journal_entries":[],${good.slice(1)}`],
  ])('is refused by its name in a transaction, and nothing is posted: %s', async (name, body) => {
    const before = await balanceOf(url, 'acct_1');
    const headers = { ...ADMIN, 'idempotency-key': randomUUID() };
    const answer = await askLedger(url, '/transaction', body, headers);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'INVALID_FIELD' } } });
    expect(answer.body.error?.message).toContain(name);
    expect(await balanceOf(url, 'acct_1')).toBe(before);
    expect((await askLedger(url, '/transaction', good, headers)).status).toBe(201);
  });

  it.each([
    ['asset', '{"category":"WALLET","asset":"USD","asset":"EUR"}'],
    ['assets', '{"category":"WALLET","asset":"USD","assets":"EUR"}'],
  ])('is refused by its name in an account: %s', async (name, body) => {
    const answer = await askLedger(url, '/account', body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'INVALID_FIELD' } } });
    expect(answer.body.error?.message).toContain(`"${name}"`);
  });

  it.each([
    ['memo', (text: string) => text.replace('"clientId"', '"memo":"x","clientId"')],
    ['conditions', (text: string) => text.replace('"key":"k"', '"key":"k","conditions":{}')],
    [
      'mustExists',
      (text: string) => text.replace('"key":"k"', '"key":"k","condition":{"mustExists":true}'),
    ],
    ['key', (text: string) => text.replace('"key":"k"', '"key":"k","key":"l"')],
  ])('is refused by its name in Connect JSON, and nothing is written: %s', async (name, change) => {
    const organization = await newOrganization();
    const write =
      `{"organization":"${organization}","clientId":"app","idempotencyKey":"${base64Key()}",` +
      `"operations":[{"setEntity":{"key":"k","value":"eA=="}}]}`;
    const answer = await rpc('WriteService/Write', change(write));
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_argument' } });
    expect(String(answer.body.message)).toContain(name);
    const read = await rpc('ReadService/Read', `{"organization":"${organization}","key":"k"}`);
    expect(read.body.exists).toBe(false);
    expect((await rpc('WriteService/Write', write)).body.success).toBeDefined();
  });
});

describe('[S2] deleteEntity with a condition', () => {
  it('deletes only if the condition holds, and uses no sequence if not', async () => {
    const organization = await newOrganization();
    const write = (operation: Json) =>
      rpc(
        'WriteService/Write',
        JSON.stringify({
          organization,
          clientId: 'app',
          idempotencyKey: base64Key(),
          operations: [operation],
        }),
      );
    const remove = (condition: Json) => write({ deleteEntity: { key: 'k', condition } });
    const exists = async () =>
      (await rpc('ReadService/Read', JSON.stringify({ organization, key: 'k' }))).body.exists;
    const code = async (condition: Json) =>
      ((await remove(condition)).body.error as Json | undefined)?.code;

    expect(await code({ mustExist: true })).toBe('KEY_NOT_FOUND');
    await write({ setEntity: { key: 'k', value: btoa('one') } });
    await write({ setEntity: { key: 'k', value: btoa('two') } });
    expect(await code({ version: '1' })).toBe('VERSION_MISMATCH');
    expect(await code({ valueEquals: btoa('one') })).toBe('VALUE_MISMATCH');
    expect(await code({ notExists: true })).toBe('KEY_EXISTS');
    expect(await exists()).toBe(true);
    const removed = await remove({ version: '2' });
    expect(removed.body.success).toMatchObject({ assignedSequence: '3' });
    expect(await exists()).toBe(false);
  });
});

describe('[L11] a creation with a key', () => {
  const account = (key: string, asset = 'USD', headers: Record<string, string> = ADMIN) =>
    askLedger(url, '/account', `{"category":"WALLET","asset":"${asset}"}`, {
      ...headers,
      'idempotency-key': key,
    });

  it('opens one account, however often it is retried: at once, later or after a kill', async () => {
    const key = randomUUID();
    const together = await Promise.all(Array.from({ length: 5 }, () => account(key)));
    expect(together.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    const ids = new Set(together.map(({ body }) => body.id));
    expect(ids.size).toBe(1);
    await server.program.stop('SIGKILL');
    await start();
    expect(await account(key)).toEqual(together[0]);
    expect((await account(randomUUID())).body.id).not.toBe(together[0]?.body.id);
  });

  it('is refused for something else, and is another key for another credential', async () => {
    const key = randomUUID();
    const first = await account(key);
    expect(await account(key, 'EUR')).toMatchObject({
      status: 422,
      body: { error: { code: 'IDEMPOTENCY_KEY_REUSED', retry: 'new_key', happened: 'no' } },
    });
    expect(await account('k'.repeat(101))).toMatchObject({
      status: 400,
      body: { error: { code: 'IDEMPOTENCY_KEY_INVALID' } },
    });
    const other = await account(key, 'EUR', await newCredential(url));
    expect(other.status).toBe(201);
    expect(other.body.id).not.toBe(first.body.id);
  });

  it('makes one organization and one vault', async () => {
    const idempotencyKey = base64Key();
    const make = (name: string) =>
      rpc('AdminService/CreateOrganization', JSON.stringify({ name, idempotencyKey }));
    const first = await make('Keyed');
    expect(await make('Keyed')).toEqual(first);
    const other = await make('Another');
    expect(other).toMatchObject({ status: 400, body: { code: 'failed_precondition' } });
    expect(String(other.body.message)).toContain('IDEMPOTENCY_KEY_REUSED');

    const { organization } = first.body;
    const vault = (name: string) =>
      rpc('AdminService/CreateVault', JSON.stringify({ organization, name, idempotencyKey }));
    const made = await vault('main');
    expect(made.status).toBe(200);
    expect(await vault('main')).toEqual(made);
    expect(String((await vault('side')).body.message)).toContain('IDEMPOTENCY_KEY_REUSED');
    const bad = { name: 'Bad', idempotencyKey: btoa('short') };
    expect(await rpc('AdminService/CreateOrganization', JSON.stringify(bad))).toMatchObject({
      status: 400,
      body: { code: 'invalid_argument' },
    });
  });
});

describe('[E16] what the ledger refuses over HTTP', () => {
  const body = transactionText({ from: 'acct_0', to: 'acct_1' });

  it.each([
    ['no credential', body, { 'x-api-key': '', 'x-api-secret': '' }, 401, 'same_key'],
    ['JSON that breaks off', '{', {}, 400, 'never'],
    ['no key', body, { 'idempotency-key': '' }, 400, 'never'],
    ['a body over its limit', `{"a":"${'x'.repeat(1_100_000)}"}`, {}, 413, 'new_key'],
    ['an unknown account', body.replace('acct_1', 'acct_999'), {}, 404, 'never'],
  ])('says that nothing happened: %s', async (_, sent, more, status, retry) => {
    const headers = { ...ADMIN, 'idempotency-key': randomUUID(), ...more };
    expect(await askLedger(url, '/transaction', sent, headers)).toMatchObject({
      status,
      body: { error: { retry, happened: 'no' } },
    });
  });

  it('says of a duplicate that is in flight that the same key may be sent again, and of others not', async () => {
    const headers = { ...ADMIN, 'idempotency-key': randomUUID() };
    const storm = Array.from({ length: 20 }, () => askLedger(url, '/transaction', body, headers));
    const refused = (await Promise.all(storm)).filter(({ status }) => status === 409);
    expect(refused.length).toBe(19);
    for (const { body: answer } of refused) {
      const retry = answer.error?.layer === 'in_flight' ? 'same_key' : 'never';
      expect(answer.error).toMatchObject({
        code: 'DUPLICATE_IDEMPOTENCY_KEY',
        retry,
        happened: 'unknown',
      });
    }
    expect(refused.some(({ body: answer }) => answer.error?.layer === 'in_flight')).toBe(true);
  });
});
