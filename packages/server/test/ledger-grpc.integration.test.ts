import { createClient, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import {
  AdminService,
  type BlockHeader,
  type ProofStep,
  ReadService,
  WriteError_Code,
  WriteService,
} from '@onceward/ledger/rpc';
import { hashBlockHeader, verifyChain, verifyRow, verifyTransaction } from 'onceward/proof';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAccount } from './ledger-client.ts';
import { bytes, grpcTo, newRpcKey, type Server, set, withHeaders } from './ledger-rpc.ts';
import { ADMIN, startServer, temporaryFolder } from './running-program.ts';

let server: Server;
let transport: Transport;
let organization: string;

beforeAll(async () => {
  server = await startServer();
  transport = await grpcTo(server);
  ({ organization } = await createClient(AdminService, transport).createOrganization({
    name: 'Acme',
  }));
});
afterAll(() => server.stop());

const plainHeader = (header: BlockHeader | undefined) => ({
  height: Number(header?.height),
  previous: header?.previous ?? '',
  transactions: header?.transactions ?? '',
  count: header?.count ?? 0,
  state: header?.state ?? '',
  at: Number(header?.at),
  term: Number(header?.term),
});
const plainPath = (path: readonly ProofStep[] | undefined) =>
  (path ?? []).map(({ siblings }) => siblings);

describe.each(['gRPC', 'gRPC-Web', 'Connect'] as const)('[S1] over %s', (protocol) => {
  const own = (): Transport => {
    const interceptors = [withHeaders(ADMIN)];
    if (protocol === 'gRPC') return transport;
    const options = { baseUrl: server.url, httpVersion: '1.1' as const, interceptors };
    return protocol === 'Connect'
      ? createConnectTransport(options)
      : createGrpcWebTransport(options);
  };

  it('[S2] [S3] writes, reads, and knows where a client is', async () => {
    const write = createClient(WriteService, own());
    const read = createClient(ReadService, own());
    const clientId = `client-${protocol}`;
    const stream = { organization, clientId };
    const first = await write.write({
      ...stream,
      sequence: 1n,
      idempotencyKey: newRpcKey(),
      operations: [set(`k-${protocol}`, 'v')],
    });
    expect(first.result).toMatchObject({ case: 'success', value: { assignedSequence: 1n } });
    expect(await read.getClientState(stream)).toMatchObject({ lastCommittedSequence: 1n });
    const found = await read.read({ organization, key: `k-${protocol}` });
    expect(found).toMatchObject({ exists: true, value: bytes('v') });
    expect(await read.read({ organization, key: 'none' })).toMatchObject({ exists: false });
  });

  it('[S1] streams blocks as they are made, those of the past first', async () => {
    const write = createClient(WriteService, own());
    const read = createClient(ReadService, own());
    const { block: tip } = await read.getTip({});
    const from = tip?.header?.height ?? 0n;
    const stop = new AbortController();
    const seen = [];
    for await (const block of read.watchBlocks({ fromHeight: from }, { signal: stop.signal })) {
      seen.push(plainHeader(block.header));
      if (seen.length === 3) break;
      await write.write({
        organization,
        clientId: `watcher-${protocol}`,
        idempotencyKey: newRpcKey(),
        operations: [set('watched', String(seen.length))],
      });
    }
    stop.abort();
    expect(verifyChain(seen)).toMatchObject({ ok: true });
    const { block } = await read.getBlock({ height: from });
    expect(block?.hash).toBe(hashBlockHeader(seen[0] ?? plainHeader(undefined)));
  });
});

describe('sequenced writes', () => {
  const write = (input: object) =>
    createClient(WriteService, transport).write({ organization, clientId: 'sequenced', ...input });

  it('[S3] [S4] refuse a gap, and answer a repeat with the answer of its own sequence', async () => {
    const idempotencyKey = newRpcKey();
    const input = { sequence: 1n, idempotencyKey, operations: [set('a', '1')] };
    const first = await write(input);
    await write({ sequence: 2n, idempotencyKey: newRpcKey(), operations: [set('a', '2')] });
    expect(await write(input)).toEqual(first);
    expect((await write({ ...input, operations: [set('a', '3')] })).result).toMatchObject({
      case: 'error',
      value: { code: WriteError_Code.IDEMPOTENCY_KEY_REUSED },
    });
    const gap = { sequence: 4n, idempotencyKey: newRpcKey(), operations: [set('a', '4')] };
    expect((await write(gap)).result).toMatchObject({
      case: 'error',
      value: { code: WriteError_Code.SEQUENCE_GAP, lastCommittedSequence: 2n },
    });
    const late = { sequence: 1n, idempotencyKey: newRpcKey(), operations: [set('a', '5')] };
    expect((await write(late)).result).toMatchObject({
      case: 'error',
      value: { code: WriteError_Code.ALREADY_COMMITTED },
    });
  });

  it('[S2] hold their conditions', async () => {
    const clientId = 'conditions';
    const conditional = (kind: object) => ({
      clientId,
      idempotencyKey: newRpcKey(),
      operations: [
        {
          kind: { case: 'setEntity', value: { key: 'c', value: bytes('x'), condition: { kind } } },
        },
      ],
    });
    const codeOf = async (kind: object) => {
      const { result } = await write(conditional(kind));
      return result.case === 'error' ? result.value.code : result.case;
    };
    expect(await codeOf({ case: 'mustExist', value: true })).toBe(WriteError_Code.KEY_NOT_FOUND);
    expect(await codeOf({ case: 'notExists', value: true })).toBe('success');
    expect(await codeOf({ case: 'notExists', value: true })).toBe(WriteError_Code.KEY_EXISTS);
    expect(await codeOf({ case: 'version', value: 99n })).toBe(WriteError_Code.VERSION_MISMATCH);
    expect(await codeOf({ case: 'valueEquals', value: bytes('y') })).toBe(
      WriteError_Code.VALUE_MISMATCH,
    );
    expect(await codeOf({ case: 'valueEquals', value: bytes('x') })).toBe('success');
  });

  it('[S2] post to accounts and keep relationships', async () => {
    const [from, to] = [await openAccount(server.url), await openAccount(server.url)];
    const tie = { resource: 'doc:1', relation: 'viewer', subject: 'user:1' };
    const posting = {
      asset: 'USD',
      amount: '12',
      debit: { accountId: from },
      credit: { accountId: to },
    };
    const { result } = await write({
      clientId: 'posting',
      idempotencyKey: newRpcKey(),
      operations: [
        { kind: { case: 'post', value: posting } },
        { kind: { case: 'createRelationship', value: tie } },
      ],
    });
    expect(result.case).toBe('success');
    const read = createClient(ReadService, transport);
    expect(await read.read({ organization, relationship: tie })).toMatchObject({ exists: true });
    const other = { ...tie, subject: 'user:2' };
    expect(await read.read({ organization, relationship: other })).toMatchObject({ exists: false });
  });

  it('[S6] count separately in the organization and in each vault', async () => {
    const { vault } = await createClient(AdminService, transport).createVault({
      organization,
      name: 'one',
    });
    const clientId = 'scoped';
    const input = { clientId, sequence: 1n, operations: [set('s', '1')] };
    expect((await write({ ...input, idempotencyKey: newRpcKey() })).result.case).toBe('success');
    expect((await write({ ...input, vault, idempotencyKey: newRpcKey() })).result.case).toBe(
      'success',
    );
    const read = createClient(ReadService, transport);
    expect(await read.getClientState({ organization, vault, clientId })).toMatchObject({
      lastCommittedSequence: 1n,
    });
  });

  it('[S7] in a batch happen all or not at all, under one sequence', async () => {
    const client = createClient(WriteService, transport);
    const read = createClient(ReadService, transport);
    const stream = { organization, clientId: 'batch' };
    const good = [{ operations: [set('b1', '1')] }, { operations: [set('b2', '2')] }];
    const bad = {
      operations: [
        {
          kind: {
            case: 'setEntity' as const,
            value: {
              key: 'b1',
              value: bytes('3'),
              condition: { kind: { case: 'notExists' as const, value: true } },
            },
          },
        },
      ],
    };
    const first = await client.batchWrite({
      ...stream,
      sequence: 1n,
      idempotencyKey: newRpcKey(),
      writes: good,
    });
    expect(first.result.case).toBe('success');
    const second = await client.batchWrite({
      ...stream,
      sequence: 2n,
      idempotencyKey: newRpcKey(),
      writes: [{ operations: [set('b3', '3')] }, bad],
    });
    expect(second.result).toMatchObject({
      case: 'error',
      value: { code: WriteError_Code.KEY_EXISTS },
    });
    expect(await read.read({ organization, key: 'b3' })).toMatchObject({ exists: false });
    expect(await read.getClientState(stream)).toMatchObject({ lastCommittedSequence: 1n });
  });

  it('[S9] can be proven with nothing but the header of a block', async () => {
    const { result } = await write({
      clientId: 'proven',
      idempotencyKey: newRpcKey(),
      operations: [set('proven', 'yes')],
      includeTxProof: true,
    });
    if (result.case !== 'success') throw new Error('it was not written');
    const { blockHeader, transaction = '', txProof } = result.value;
    const proof = { position: txProof?.position ?? -1, count: txProof?.count ?? 0 };
    const path = plainPath(txProof?.path);
    const header = plainHeader(blockHeader);
    expect(verifyTransaction(header, transaction, { ...proof, path })).toMatchObject({
      ok: true,
      value: { actor: 'client:ak_tests', client: 'proven' },
    });
    const forged = transaction.replace('ak_tests', 'ak_other');
    expect(verifyTransaction(header, forged, { ...proof, path })).toMatchObject({ ok: false });

    const read = createClient(ReadService, transport);
    for (const [key, expected] of [
      ['proven', { value: Buffer.from('yes').toString('base64') }],
      ['absent', undefined],
    ] as const) {
      const shown = await read.verifiedRead({ organization, key });
      const { accountCount = 0n, accounts = '', rows = '' } = shown.parts ?? {};
      const { bucketCount = 0n, bucket = '', path: steps } = shown.proof ?? {};
      const verdict = verifyRow(
        plainHeader(shown.blockHeader),
        shown.row,
        { accountCount: Number(accountCount), accounts, rows },
        { bucketCount: Number(bucketCount), bucket, path: plainPath(steps) },
      );
      expect(verdict.ok).toBe(true);
      if (verdict.ok && expected === undefined) expect(verdict.value).toBeUndefined();
      else expect(verdict).toMatchObject({ value: expected });
    }
  });
});

describe('[S4] a server that was started again', () => {
  it('knows a repeat from its state, with the transaction that it became', async () => {
    const folder = temporaryFolder();
    const first = await startServer({ ONCEWARD_DATA: folder.path });
    const before = await grpcTo(first);
    const made = await createClient(AdminService, before).createOrganization({ name: 'A' });
    const input = {
      organization: made.organization,
      clientId: 'c',
      sequence: 1n,
      idempotencyKey: newRpcKey(),
      operations: [set('k', 'v')],
    };
    const { result } = await createClient(WriteService, before).write(input);
    await first.program.stop('SIGKILL');
    const second = await startServer({ ONCEWARD_DATA: folder.path });
    const repeat = await createClient(WriteService, await grpcTo(second)).write(input);
    expect(repeat.result).toMatchObject({
      case: 'error',
      value: {
        code: WriteError_Code.ALREADY_COMMITTED,
        assignedSequence: 1n,
        committedTxId: result.case === 'success' ? result.value.txId : 'none',
      },
    });
    await second.stop();
    folder.remove();
  });
});

describe('[S5] a client that was silent for too long', () => {
  it('is unknown, and begins again at 1', async () => {
    const forgetful = await startServer({
      LEDGER_EVICTION_INTERVAL: '2',
      LEDGER_CLIENT_TTL_SECONDS: '1',
    });
    const to = await grpcTo(forgetful);
    const made = await createClient(AdminService, to).createOrganization({ name: 'A' });
    const stream = { organization: made.organization, clientId: 'silent' };
    const write = createClient(WriteService, to);
    const read = createClient(ReadService, to);
    const once = () => ({ sequence: 1n, idempotencyKey: newRpcKey(), operations: [set('z', '1')] });
    await write.write({ ...stream, ...once() });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    for (let at = 0; at < 3; at += 1) {
      const other = { ...stream, clientId: 'busy', idempotencyKey: newRpcKey() };
      await write.write({ ...other, operations: [set('y', `${at}`)] });
    }
    expect(await read.getClientState(stream)).toMatchObject({ lastCommittedSequence: 0n });
    expect((await write.write({ ...stream, ...once() })).result.case).toBe('success');
    await forgetful.stop();
  });
});
