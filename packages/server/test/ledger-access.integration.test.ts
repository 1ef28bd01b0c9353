import { randomUUID } from 'node:crypto';
import { connect } from 'node:http2';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { AdminService, ReadService, WriteService } from '@onceward/ledger/rpc';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askLedger, type Headers, newCredential, openAccount, pay } from './ledger-client.ts';
import { grpcTo, newRpcKey, type Server, set } from './ledger-rpc.ts';
import { ADMIN, startServer } from './running-program.ts';

let server: Server;
let url: string;
let mine: Headers;
let others: Headers;
let reader: Headers;
let from: string;
let to: string;

beforeAll(async () => {
  server = await startServer();
  ({ url } = server);
  mine = await newCredential(url);
  others = await newCredential(url);
  reader = await newCredential(url, 'read_only');
  from = await openAccount(url, 'USD', mine);
  to = await openAccount(url, 'USD', mine);
});
afterAll(() => server.stop());

const show = (path: string, headers: Headers) => askLedger(url, path, undefined, headers);

describe("another's credential", () => {
  it('[L6] is not one: a key goes with its own secret alone', async () => {
    const mixed = {
      'x-api-key': mine['x-api-key'] ?? '',
      'x-api-secret': others['x-api-secret'] ?? '',
    };
    // Both are known by now, so nothing but their belonging together is in question.
    await show(`/account/${from}`, mine);
    await show(`/account/${from}`, others);
    const answer = await pay(url, randomUUID(), { from, to }, mixed);
    expect(answer).toMatchObject({ status: 401, body: { error: { code: 'UNAUTHORIZED' } } });
  });

  it('[L3] has keys of its own, and cannot learn whether mine was used', async () => {
    const key = randomUUID();
    const first = await pay(url, key, { from, to }, mine);
    expect(first.status).toBe(201);
    expect(await show(`/idempotency/${key}`, others)).toMatchObject({
      status: 404,
      body: { error: { code: 'IDEMPOTENCY_KEY_NOT_FOUND' } },
    });
    const second = await pay(url, key, { from, to }, others);
    expect(second.status).toBe(201);
    expect(second.body.transaction_id).not.toBe(first.body.transaction_id);
    expect((await show(`/idempotency/${key}`, mine)).body.response).toMatchObject({
      transaction_id: first.body.transaction_id,
    });
  });

  it('[L5] sees accounts and transactions of the one book, and no key in them', async () => {
    const key = randomUUID();
    const { body } = await pay(url, key, { from, to }, mine);
    const transaction = await show(`/transaction/${body.transaction_id}`, others);
    expect(transaction).toMatchObject({
      status: 200,
      body: { transaction_id: body.transaction_id, actor: `client:${mine['x-api-key']}` },
    });
    const page = await show(`/account/${from}/ledger`, others);
    expect(page.status).toBe(200);
    for (const shown of [transaction, page]) expect(JSON.stringify(shown.body)).not.toContain(key);
  });

  it('[L6] cannot make, see or revoke credentials unless it is an admin', async () => {
    const forbidden = { status: 403, body: { error: { code: 'FORBIDDEN' } } };
    for (const headers of [mine, reader]) {
      expect(await askLedger(url, '/credentials', '{}', headers)).toMatchObject(forbidden);
      expect(await show('/credentials', headers)).toMatchObject(forbidden);
    }
    const path = `/credentials/${others['x-api-key']}`;
    const response = await fetch(url + path, { method: 'DELETE', headers: mine });
    expect(response.status).toBe(403);
    expect((await show(`/account/${from}`, others)).status).toBe(200);
  });
});

describe('[L6] what /credentials refuses', () => {
  it.each([
    ['a role that does not exist', '{"role":"root"}', ADMIN, 400, 'INVALID_FIELD'],
    ['JSON that breaks off', '{', ADMIN, 400, 'INVALID_FIELD'],
    ['a tenant for an admin', '{"role":"admin","tenant":"shop"}', ADMIN, 400, 'INVALID_FIELD'],
    ['nobody', '{}', {}, 401, 'UNAUTHORIZED'],
  ])(
    'is a problem with the envelope of the ledger in it: %s',
    async (_, body, headers, status, code) => {
      expect(await askLedger(url, '/credentials', body, headers as Headers)).toEqual({
        status,
        body: expect.objectContaining({
          type: expect.any(String),
          status,
          error: {
            code,
            message: expect.stringMatching(/.{10}/),
            retry: expect.any(String),
            happened: 'no',
          },
        }),
      });
    },
  );
});

describe('[L6] a call over gRPC without a credential', () => {
  it('is refused before its body has come', async () => {
    const base = (await server.program.printed(/serves gRPC on (\S+)/))[1] ?? '';
    const session = connect(base);
    const stream = session.request(
      {
        ':method': 'POST',
        ':path': '/onceward.ledger.v1.WriteService/Write',
        'content-type': 'application/grpc',
      },
      { endStream: false },
    );
    stream.write(Buffer.alloc(5));
    const status = await new Promise((resolve) => {
      stream.on('trailers', (trailers) => resolve(trailers['grpc-status']));
      stream.resume();
    });
    session.destroy();
    expect(Number(status)).toBe(Code.Unauthenticated);
  });
});

describe('[S9] blocks', () => {
  const readAs = async (headers: Headers) =>
    createClient(ReadService, await grpcTo(server, headers));
  const tipAs = async (headers: Headers) => (await (await readAs(headers)).getTip({})).block;

  it('show their transactions to those who may read everything, and headers to all', async () => {
    const key = randomUUID();
    await pay(url, key, { from, to }, mine);
    const whole = await tipAs(reader);
    expect(whole?.transactions.join()).toContain(key);
    expect(await tipAs(ADMIN)).toEqual(whole);
    for (const headers of [mine, others]) {
      const block = await tipAs(headers);
      expect(block?.hash).toBe(whole?.hash);
      expect(block?.header).toEqual(whole?.header);
      expect(block?.transactions).toEqual([]);
      const height = whole?.header?.height ?? 0n;
      const read = await readAs(headers);
      expect((await read.getBlock({ height })).block).toEqual(block);
      for await (const seen of read.watchBlocks({ fromHeight: height })) {
        expect(seen).toEqual(block);
        break;
      }
    }
  });

  it('[L6] are no longer shown to a watcher whose credential was revoked', async () => {
    const watcher = await newCredential(url);
    const blocks = (await readAs(watcher)).watchBlocks({ fromHeight: 1n });
    const stream = blocks[Symbol.asyncIterator]();
    expect((await stream.next()).done).toBe(false);
    const path = `${url}/credentials/${watcher['x-api-key']}`;
    expect((await fetch(path, { method: 'DELETE', headers: ADMIN })).status).toBe(204);
    await pay(url, randomUUID(), { from, to }, mine);
    const end = (async () => {
      while ((await stream.next()).done !== true);
      return null;
    })().catch((error: unknown) => ConnectError.from(error).code);
    expect(await end).toBe(Code.Unauthenticated);
  });
});

describe('[S6] a stream of sequenced writes', () => {
  it('belongs to its client id: a credential that replaces another goes on in it', async () => {
    const admin = createClient(AdminService, await grpcTo(server));
    const { organization } = await admin.createOrganization({ name: 'Rotation' });
    const writeAs = async (headers: Headers, sequence: bigint) =>
      createClient(WriteService, await grpcTo(server, headers)).write({
        organization,
        clientId: 'app',
        sequence,
        idempotencyKey: newRpcKey(),
        operations: [set('k', String(sequence))],
      });
    expect((await writeAs(mine, 1n)).result.case).toBe('success');
    expect((await writeAs(others, 2n)).result.case).toBe('success');
    expect((await writeAs(others, 2n)).result.case).toBe('error');
  });
});
