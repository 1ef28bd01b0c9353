import { setTimeout as sleep } from 'node:timers/promises';
import { Code, createClient } from '@connectrpc/connect';
import { AdminService, WriteService } from '@onceward/ledger/rpc';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { askLedger, balanceOf, openAccount, pay, transactionText } from './ledger-client.ts';
import { failure, grpcTo, newRpcKey, set } from './ledger-rpc.ts';
import { ADMIN, startServer } from './running-program.ts';

/** The keys of transactions and of accounts are known for this long, by the real clock. */
const WINDOW_MS = 3_600;
const ACCOUNT_WINDOW_MS = 3_000;
const EXPIRED = { code: 'KEY_EXPIRED', retry: 'never', happened: 'unknown' };

let server: Awaited<ReturnType<typeof startServer>>;
let url: string;
let from: string;
let to: string;

beforeAll(async () => {
  server = await startServer({
    LEDGER_IDEMPOTENCY_TTL_HOURS: '0.001',
    LEDGER_IDEMPOTENCY_CLEANUP_INTERVAL_MIN: '0.01',
    LEDGER_CLIENT_TTL_SECONDS: String(ACCOUNT_WINDOW_MS / 1_000),
  });
  url = server.url;
  [from, to] = [await openAccount(url), await openAccount(url)];
});
afterAll(() => server.stop());

const firstSent = (at: number, name = 'idempotency-first-sent') => ({
  ...ADMIN,
  [name]: new Date(at).toUTCString(),
});

function post(path: string, key: string, body: string): Promise<Response> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key, ...ADMIN };
  return fetch(url + path, { method: 'POST', headers, body });
}

const keptUntil = ({ headers }: Response) =>
  Date.parse(headers.get('idempotency-kept-until') ?? '');

it('[H20] a transaction whose key the ledger has forgotten is not posted again', async () => {
  const before = BigInt(await balanceOf(url, to));
  const sentAt = Date.now();
  const first = await post('/transaction', 'lost', transactionText({ from, to }));
  expect(first.status).toBe(201);
  const { created_at } = (await first.json()) as { created_at: string };
  const end = Date.parse(created_at) + WINDOW_MS;
  expect(keptUntil(first)).toBe(end - (end % 1_000));
  const soon = await pay(url, 'lost', { from, to }, firstSent(sentAt));
  expect(soon.body.error).toMatchObject({ code: 'DUPLICATE_IDEMPOTENCY_KEY', layer: 'database' });
  await sleep(WINDOW_MS + 100);
  // The ledger forgets by the time of its log, which moves on with what is written.
  await openAccount(url);
  for (const name of ['idempotency-first-sent', 'repeatability-first-sent']) {
    const late = await pay(url, 'lost', { from, to }, firstSent(sentAt, name));
    expect(late).toMatchObject({ status: 412, body: { error: EXPIRED } });
  }
  expect(BigInt(await balanceOf(url, to)) - before).toBe(100n);
});

it('[H20] a transaction that is known is answered so, whatever time it is said to be from', async () => {
  await pay(url, 'known', { from, to });
  const known = await pay(url, 'known', { from, to }, firstSent(0));
  expect(known).toMatchObject({
    status: 409,
    body: { error: { code: 'DUPLICATE_IDEMPOTENCY_KEY', layer: 'database' } },
  });
});

it('[H20] a transaction that is new to the ledger goes by when it was first sent', async () => {
  const ahead = await pay(url, 'ahead', { from, to }, firstSent(Date.now() + 90_000));
  expect(ahead).toMatchObject({ status: 412, body: { error: EXPIRED } });
  // The last tenth counts as over: what waits to be applied could outlast the window.
  const brim = Math.floor(Date.now() / 1_000) * 1_000;
  await sleep(brim + 0.95 * WINDOW_MS - Date.now());
  const late = await pay(url, 'brim', { from, to }, firstSent(brim));
  expect(late).toMatchObject({ status: 412, body: { error: EXPIRED } });
  expect((await pay(url, 'young', { from, to }, firstSent(Date.now()))).status).toBe(201);
});

it('[H20] a ledger refuses a date that it cannot read, and posts nothing', async () => {
  const headers = { ...ADMIN, 'idempotency-first-sent': 'soon' };
  const account = { ...headers, 'idempotency-key': 'odd' };
  for (const answer of [
    await pay(url, 'odd', { from, to }, headers),
    await askLedger(url, '/account', '{"category":"WALLET","asset":"USD"}', account),
  ]) {
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'FIRST_SENT_INVALID', happened: 'unknown' } },
    });
  }
  expect((await askLedger(url, '/idempotency/odd')).status).toBe(404);
});

it('[H20] an account whose key the ledger may have forgotten is not opened again', async () => {
  const body = '{"category":"WALLET","asset":"USD"}';
  const sentAt = Date.now();
  const first = await post('/account', 'opened', body);
  const { id } = (await first.json()) as { id: string };
  expect(keptUntil(first) - sentAt).toBeGreaterThan(ACCOUNT_WINDOW_MS - 1_000);
  expect(keptUntil(first) - Date.now()).toBeLessThanOrEqual(ACCOUNT_WINDOW_MS);
  const again = await post('/account', 'opened', body);
  expect(await again.json()).toEqual({ id });
  expect(keptUntil(again)).toBe(keptUntil(first));
  await sleep(ACCOUNT_WINDOW_MS + 100);
  await openAccount(url);
  const headers = { ...firstSent(sentAt), 'idempotency-key': 'opened' };
  const late = await askLedger(url, '/account', body, headers);
  expect(late).toMatchObject({ status: 412, body: { error: EXPIRED } });
});

it('[H20] a call over gRPC goes by when it was first sent, too', async () => {
  const admin = createClient(AdminService, await grpcTo(server));
  const writer = createClient(WriteService, await grpcTo(server));
  const { organization } = await admin.createOrganization({ name: 'retention' });
  const sentAt = Date.now();
  const idempotencyKey = newRpcKey();
  const write = (said: string, key = idempotencyKey) => {
    const headers = { 'idempotency-first-sent': said };
    const stream = { organization, clientId: 'till-7', idempotencyKey: key };
    return writer.write({ ...stream, operations: [set('a', '1')] }, { headers });
  };
  const date = (at: number) => new Date(at).toUTCString();
  expect((await write(date(sentAt))).result.case).toBe('success');
  const known = await write(date(0));
  expect(known.result).toMatchObject({ case: 'success', value: { assignedSequence: 1n } });
  expect(await failure(write(date(0), newRpcKey()))).toMatchObject({
    code: Code.FailedPrecondition,
    message: expect.stringContaining('KEY_EXPIRED'),
  });
  await sleep(ACCOUNT_WINDOW_MS + 1_100);
  expect(await failure(write(date(sentAt), newRpcKey()))).toMatchObject({
    code: Code.FailedPrecondition,
    message: expect.stringContaining('KEY_EXPIRED'),
  });
  expect(await failure(write('soon'))).toMatchObject({
    code: Code.InvalidArgument,
    message: expect.stringContaining('FIRST_SENT_INVALID'),
  });
  const late = { headers: { 'idempotency-first-sent': date(sentAt) } };
  const named = { name: 'late', idempotencyKey: newRpcKey() };
  expect(await failure(admin.createOrganization(named, late))).toMatchObject({
    code: Code.FailedPrecondition,
  });
});
