import { randomUUID } from 'node:crypto';
import { LedgerClient } from 'onceward/client/ledger';
import { verifyAccount, verifyTransaction } from 'onceward/proof';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askLedger, type Headers, newCredential, openAccount, pay } from './ledger-client.ts';
import { newRpcKey } from './ledger-rpc.ts';
import { ADMIN, startServer } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
let url: string;
let mine: Headers;
let others: Headers;
let from: string;
let to: string;

beforeAll(async () => {
  server = await startServer();
  ({ url } = server);
  mine = await newCredential(url);
  others = await newCredential(url);
  from = await openAccount(url, 'USD', mine);
  to = await openAccount(url, 'USD', mine);
});
afterAll(() => server.stop());

type Json = Record<string, unknown>;
const show = (path: string, headers: Headers) => askLedger(url, path, undefined, headers);

/** A client whose answers are changed on their way. */
function clientOf(headers: Headers, change: (answer: Json) => Json = (answer) => answer) {
  return new LedgerClient({
    url,
    headers: () => headers,
    async fetch(input, init) {
      const response = await fetch(input, init);
      const answer = change((await response.json()) as Json);
      return new Response(JSON.stringify(answer), { status: response.status });
    },
  });
}

async function rpc(method: string, body: Json, headers: Headers = ADMIN): Promise<Json> {
  const response = await fetch(`${url}/onceward.ledger.v1.${method}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Json;
}

describe('[S9] proofs over HTTP', () => {
  it('prove a transaction to its own client, to an admin, and to an independent verifier', async () => {
    const key = randomUUID();
    const id = String((await pay(url, key, { from, to }, mine)).body.transaction_id);
    const { transaction, header } = await clientOf(mine).verifiedTransaction(id);
    expect(transaction).toMatchObject({ id, kind: 'journal', status: 'committed', key });
    const { status, body } = await show(`/transaction/${id}/proof`, ADMIN);
    expect(status).toBe(200);
    expect(body.block_header).toEqual(header);
    const proof = body.proof as Parameters<typeof verifyTransaction>[2];
    const text = String(body.transaction);
    expect(verifyTransaction(header, text, proof)).toMatchObject({ ok: true });
    const forged = text.replace('"amount":"100"', '"amount":"999"');
    expect(forged).not.toBe(text);
    expect(verifyTransaction(header, forged, proof)).toMatchObject({ ok: false });
    const liar = clientOf(mine, (answer) => ({ ...answer, transaction: forged }));
    await expect(liar.verifiedTransaction(id)).rejects.toMatchObject({ status: 'unproven' });
    const other = String((await pay(url, randomUUID(), { from, to }, mine)).body.transaction_id);
    const swapped = clientOf(mine, (answer) => ('transaction' in answer ? (body as Json) : answer));
    await expect(swapped.verifiedTransaction(other)).rejects.toMatchObject({ status: 'unproven' });
  });

  it('prove the balance of an account, and not another one', async () => {
    await pay(url, randomUUID(), { from, to, amount: '42' }, mine);
    const { account, header } = await clientOf(others).verifiedAccount(to);
    const shown = await show(`/account/${to}`, mine);
    expect({ balance: `${account.balance}`, version: account.version }).toEqual({
      balance: shown.body.balance,
      version: shown.body.version,
    });
    const { body } = await show(`/account/${to}/proof`, others);
    expect(body.account).toMatchObject({ id: to, balance: shown.body.balance });
    const {
      account_count: accountCount,
      accounts,
      rows,
    } = body.parts as {
      account_count: number;
      accounts: string;
      rows: string;
    };
    const { leaf, path } = body.proof as { leaf: string; path: string[][] };
    const parts = { accountCount, accounts, rows };
    expect(verifyAccount(header, 1, parts, { accountCount, leaf, path })).toMatchObject({
      ok: true,
    });
    const swapped = clientOf(mine, () => body as Json);
    await expect(swapped.verifiedAccount(from)).resolves.toMatchObject({ account: { number: 0 } });
    const forged = (leaf.startsWith('0') ? '1' : '0') + leaf.slice(1);
    const liar = clientOf(mine, (answer) => ({
      ...answer,
      proof: { ...(body.proof as Json), leaf: forged },
    }));
    await expect(liar.verifiedAccount(to)).rejects.toMatchObject({ status: 'unproven' });
    await expect(clientOf(mine).verifiedAccount('acct_999')).rejects.toMatchObject({
      status: 'ACCOUNT_NOT_FOUND',
    });
  });

  it("do not show another client's key", async () => {
    const key = randomUUID();
    const id = String((await pay(url, key, { from, to }, mine)).body.transaction_id);
    expect(await show(`/transaction/${id}/proof`, others)).toMatchObject({
      status: 403,
      body: { error: { code: 'FORBIDDEN' } },
    });
    expect(await show('/transaction/tx_999_0/proof', others)).toMatchObject({ status: 404 });

    // Nor does the proof of an entity, which shows every row that shares its bucket.
    const { organization } = await rpc('AdminService/CreateOrganization', { name: 'Acme' });
    const keys: string[] = [];
    for (let n = 0; n < 40; n += 1) {
      const bytes = Buffer.from(newRpcKey());
      keys.push(bytes.toString('hex'), bytes.toString('base64'));
      await rpc('WriteService/Write', {
        organization,
        clientId: `client-${n}`,
        idempotencyKey: bytes.toString('base64'),
        operations: [{ setEntity: { key: `e${n}`, value: 'eA==' } }],
      });
    }
    let seen = '';
    for (let n = 0; n < 40; n += 1) {
      seen += JSON.stringify(
        await rpc('ReadService/VerifiedRead', { organization, key: `e${n}` }, others),
      );
    }
    expect(seen).toContain('client-');
    for (const secret of [...keys, key, mine['x-api-key'] ?? ''])
      expect(seen).not.toContain(secret);
  });
});

describe('[S8] the actor of a transaction', () => {
  const credentialOf = async (body: Json) => {
    const { status, body: made } = await askLedger(url, '/credentials', JSON.stringify(body));
    return {
      status,
      headers: { 'x-api-key': String(made.api_key), 'x-api-secret': String(made.api_secret) },
    };
  };

  it.each([
    [{ actor: 'user:alice' }, 'user:alice'],
    [{ actor: 'system:nightly', role: 'admin' }, 'system:nightly'],
    [{}, null],
  ])('is what the credential %j stands for', async (body, actor) => {
    const { headers } = await credentialOf(body);
    const expected = actor ?? `client:${headers['x-api-key']}`;
    const { body: paid } = await pay(url, randomUUID(), { from, to }, headers);
    const shown = await show(`/transaction/${paid.transaction_id}`, headers);
    expect(shown.body.actor).toBe(expected);
    const { organization } = await rpc('AdminService/CreateOrganization', { name: 'Acme' });
    const written = await rpc(
      'WriteService/Write',
      {
        organization,
        clientId: 'app',
        idempotencyKey: Buffer.from(newRpcKey()).toString('base64'),
        operations: [{ setEntity: { key: 'k', value: 'eA==' } }],
        includeTxProof: true,
      },
      headers,
    );
    const { transaction } = written.success as { transaction: string };
    expect(JSON.parse(transaction)).toMatchObject({ actor: expected });
  });

  it.each(['root', 'client:other', 'user:', 'user:a b', `user:${'x'.repeat(191)}`])(
    'cannot be %s',
    async (actor) => {
      expect((await credentialOf({ actor })).status).toBe(400);
    },
  );
});
