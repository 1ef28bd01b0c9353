import { randomUUID } from 'node:crypto';
import { Code, createClient } from '@connectrpc/connect';
import { AdminService, ReadService, WriteService } from '@onceward/ledger/rpc';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newCredential, openAccount } from './ledger-client.ts';
import { failure, grpcTo, newRpcKey, type Server, set } from './ledger-rpc.ts';
import { ADMIN, startServer } from './running-program.ts';

let server: Server;
let organization: string;

beforeAll(async () => {
  server = await startServer();
  const admin = createClient(AdminService, await grpcTo(server));
  ({ organization } = await admin.createOrganization({ name: 'Acme' }));
  await openAccount(server.url);
  await openAccount(server.url);
});
afterAll(() => server.stop());

const INVALID = [Code.InvalidArgument, 'INVALID_FIELD'] as const;

const posting = (more: object) => ({
  kind: {
    case: 'post' as const,
    value: {
      asset: 'USD',
      amount: '5',
      debit: { accountId: 'acct_0' },
      credit: { accountId: 'acct_1' },
      ...more,
    },
  },
});

describe('what is not valid', () => {
  const ask = async (input: object, headers: Readonly<Record<string, string>> = ADMIN) =>
    createClient(WriteService, await grpcTo(server, headers)).write({
      organization,
      clientId: 'bad',
      idempotencyKey: newRpcKey(),
      operations: [set('bad', '1')],
      ...input,
    });

  it.each([
    ['an empty client id', { clientId: '' }, Code.InvalidArgument, 'INVALID_FIELD'],
    [
      'a key of 15 bytes',
      { idempotencyKey: new Uint8Array(15) },
      Code.InvalidArgument,
      'IDEMPOTENCY_KEY_INVALID',
    ],
    [
      'a key that is no UUID',
      { idempotencyKey: new Uint8Array(16) },
      Code.InvalidArgument,
      'IDEMPOTENCY_KEY_INVALID',
    ],
    ['a sequence of 0', { sequence: 0n }, Code.InvalidArgument, 'INVALID_FIELD'],
    ['no operations', { operations: [] }, Code.InvalidArgument, 'INVALID_FIELD'],
    ['an operation of no kind', { operations: [{}] }, Code.InvalidArgument, 'INVALID_FIELD'],
    [
      '1,001 operations',
      { operations: Array.from({ length: 1_001 }, () => set('m', '1')) },
      Code.InvalidArgument,
      'TOO_LARGE',
    ],
    [
      'a value over its limit',
      { operations: [set('big', 'v'.repeat(65_537))] },
      Code.InvalidArgument,
      'TOO_LARGE',
    ],
    [
      'a key over its limit',
      { operations: [set('k'.repeat(1_025), '1')] },
      Code.InvalidArgument,
      'TOO_LARGE',
    ],
    [
      'an unknown organization',
      { organization: 'org_999' },
      Code.NotFound,
      'ORGANIZATION_NOT_FOUND',
    ],
    ['an unknown vault', { vault: 'vault_999' }, Code.NotFound, 'VAULT_NOT_FOUND'],
    [
      'a posting without its other side',
      { operations: [posting({ credit: undefined })] },
      Code.InvalidArgument,
      'INVALID_FIELD',
    ],
    ['an amount of 0', { operations: [posting({ amount: '0' })] }, ...INVALID],
    ['a negative amount', { operations: [posting({ amount: '-1' })] }, ...INVALID],
    ['a fraction', { operations: [posting({ amount: '1.5' })] }, ...INVALID],
    ['10,000 digits', { operations: [posting({ amount: '9'.repeat(10_000) })] }, ...INVALID],
    ['an asset that nobody has', { operations: [posting({ asset: 'DOGE' })] }, ...INVALID],
    [
      'an unknown account',
      { operations: [posting({ credit: { accountId: 'acct_999' } })] },
      Code.NotFound,
      'ACCOUNT_NOT_FOUND',
    ],
    [
      'a policy that does not exist',
      { operations: [posting({ debit: { accountId: 'acct_0', balancePolicy: 'MAYBE' } })] },
      Code.InvalidArgument,
      'INVALID_BALANCE_POLICY',
    ],
  ])('[S2] is refused: %s', async (_what, input, code, name) => {
    const answer = await failure(ask(input));
    expect(answer).toMatchObject({ code, message: expect.stringContaining(name) });
    const read = createClient(ReadService, await grpcTo(server));
    expect(await read.getClientState({ organization, clientId: 'bad' })).toMatchObject({
      lastCommittedSequence: 0n,
    });
    // Those behind it go on.
    const next = await ask({ clientId: `good-${randomUUID()}`, operations: [posting({})] });
    expect(next.result.case).toBe('success');
  });

  it('[S8] is an actor that the client sends: who writes is who bears the credential', async () => {
    const answer = await failure(ask({ actor: 'system:root' }));
    expect(answer).toMatchObject({
      code: Code.InvalidArgument,
      message: expect.stringContaining('ACTOR_NOT_ALLOWED'),
    });
    expect((await failure(ask({ actor: '' }))).code).toBe(Code.InvalidArgument);
    const admin = createClient(AdminService, await grpcTo(server));
    const made = failure(admin.createOrganization({ name: 'Forged', actor: 'user:1' }));
    expect((await made).code).toBe(Code.InvalidArgument);
  });

  it('[L6] [S8] is a credential that is missing, wrong, or not meant for this', async () => {
    expect((await failure(ask({}, {}))).code).toBe(Code.Unauthenticated);
    const wrong = { ...ADMIN, 'x-api-secret': 'sk_wrong' };
    expect((await failure(ask({}, wrong))).code).toBe(Code.Unauthenticated);
    const client = await grpcTo(server, await newCredential(server.url));
    const made = createClient(AdminService, client).createOrganization({ name: 'Mine' });
    expect((await failure(made)).code).toBe(Code.PermissionDenied);
    const reader = await newCredential(server.url, 'read_only');
    expect((await failure(ask({}, reader))).code).toBe(Code.PermissionDenied);
  });

  it('[S1] is distinguished in Connect JSON too, with u64 as text', async () => {
    const call = async (method: string, body: string, headers: object = ADMIN) => {
      const response = await fetch(`${server.url}/onceward.ledger.v1.${method}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body,
      });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    const key = Buffer.from(newRpcKey()).toString('base64');
    const request = (more: object) =>
      JSON.stringify({
        organization,
        clientId: 'json',
        idempotencyKey: key,
        operations: [{ setEntity: { key: 'j', value: 'dg==' } }],
        ...more,
      });
    const write = 'WriteService/Write';
    const stream = JSON.stringify({ organization, clientId: 'json' });
    expect(await call('ReadService/GetClientState', stream)).toEqual({
      status: 200,
      body: { lastCommittedSequence: '0' },
    });
    const gap = await call(write, request({ sequence: '5' }));
    expect(gap.body).toMatchObject({ error: { code: 'SEQUENCE_GAP', lastCommittedSequence: '0' } });
    const done = await call(write, request({ sequence: '1' }));
    expect(done.body).toMatchObject({
      success: { txId: expect.any(String), assignedSequence: '1' },
    });
    const beyond = await call(write, request({ sequence: '18446744073709551616' }));
    expect(beyond).toMatchObject({ status: 400, body: { code: 'invalid_argument' } });
    const forged = await call(write, request({ actor: 'user:1' }));
    expect(forged).toMatchObject({ status: 400, body: { code: 'invalid_argument' } });
    expect((await call(write, '{')).status).toBe(400);
    expect(await call(write, request({}), {})).toMatchObject({
      status: 401,
      body: { code: 'unauthenticated' },
    });
    const missing = await call('ReadService/GetBlock', '{"height":"999999"}');
    expect(missing).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });
});
