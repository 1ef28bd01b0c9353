import { randomUUID } from 'node:crypto';
import { type ClientWorld, memoryStorage, realWorld } from 'onceward/client';
import { LedgerClient, LedgerWriter, type WriterResult } from 'onceward/client/ledger';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, startServer } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
let organization: string;

beforeAll(async () => {
  server = await startServer({
    LEDGER_CLIENT_TTL_SECONDS: '4',
    LEDGER_EVICTION_INTERVAL: '1',
    // Repeats are answered from the state, as after a restart.
    LEDGER_NEAR_TIER_ENTRIES: '0',
  });
  const made = await call('AdminService/CreateOrganization', { name: 'Acme' });
  organization = String(made.organization);
});
afterAll(() => server.stop());

type Json = Record<string, unknown>;

async function call(method: string, body: Json): Promise<Json> {
  const response = await fetch(`${server.url}/onceward.ledger.v1.${method}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...ADMIN },
    body: JSON.stringify(body),
  });
  return (await response.json()) as Json;
}

/** A client of a ledger whose answers are changed on their way. */
function clientThrough(change: (answer: Json) => Json = (answer) => answer): LedgerClient {
  return new LedgerClient({
    url: server.url,
    headers: () => ADMIN,
    async fetch(input, init) {
      const answer = (await (await fetch(input, init)).json()) as Json;
      return new Response(JSON.stringify(change(answer)));
    },
  });
}

const set = (key: string, value: string) => [{ setEntity: { key, value: btoa(value) } }];

function writeCall(clientId = randomUUID() as string) {
  const key = Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64');
  const operations = set(randomUUID(), 'x');
  return { organization, clientId, sequence: 1n, idempotencyKey: key, operations };
}

describe('a client that verifies', () => {
  it('[C16] believes the proof of its own write', async () => {
    expect(await clientThrough().write(writeCall(), true)).toMatchObject({ kind: 'success' });
  });

  it('[C16] does not believe a success without a proof', async () => {
    const client = clientThrough(({ success }) => {
      const { txProof: _, ...rest } = success as Json;
      return { success: rest };
    });
    await expect(client.write(writeCall(), true)).rejects.toMatchObject({ status: 'unproven' });
  });

  it("[C16] does not believe the proof of another's write, nor of another write of its own", async () => {
    const other = { ...writeCall(), sequence: '1', includeTxProof: true };
    const proven = await call('WriteService/Write', other);
    const client = clientThrough(() => proven);
    await expect(client.write(writeCall(), true)).rejects.toMatchObject({ status: 'unproven' });
    const sameClient = writeCall(other.clientId);
    await expect(client.write(sameClient, true)).rejects.toMatchObject({ status: 'unproven' });
  });

  it('[C16] believes that a write was committed before only with its proof', async () => {
    const write = writeCall();
    await clientThrough().write(write, true);
    expect(await clientThrough().write(write, true)).toMatchObject({
      kind: 'error',
      code: 'ALREADY_COMMITTED',
      committedTxId: expect.any(String),
    });
    const liar = clientThrough(({ error }) => {
      const { txProof: _, ...rest } = error as Json;
      return { error: rest };
    });
    await expect(liar.write(write, true)).rejects.toMatchObject({ status: 'unproven' });
    // Another write of the same client, proven, in place of the one that was sent.
    const next = { ...writeCall(write.clientId), sequence: 2n };
    const proven = { ...next, sequence: '2', includeTxProof: true };
    await call('WriteService/Write', proven);
    const repeat = await call('WriteService/Write', proven);
    const swapped = clientThrough(() => repeat);
    await expect(swapped.write(write, true)).rejects.toMatchObject({ status: 'unproven' });
    expect(await swapped.write(next, true)).toMatchObject({ code: 'ALREADY_COMMITTED' });
  });

  it('[C16] does not go over to another chain, though every proof in it holds', async () => {
    const other = await startServer();
    try {
      let url = server.url;
      const client = new LedgerClient({
        url: server.url,
        headers: () => ADMIN,
        fetch: (input, init) => fetch(String(input).replace(server.url, url), init),
      });
      await client.write(writeCall(), true);
      const anchor = client.anchor;
      url = other.url;
      const made = await fetch(`${url}/onceward.ledger.v1.AdminService/CreateOrganization`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...ADMIN },
        body: '{"name":"Acme"}',
      });
      const { organization: theirs } = (await made.json()) as { organization: string };
      const write = { ...writeCall(), organization: theirs };
      await expect(client.write(write, true)).rejects.toMatchObject({ status: 'unproven' });
      const read = client.verifiedRead({ organization: theirs }, 'any');
      await expect(read).rejects.toMatchObject({ status: 'unproven' });
      expect(client.anchor).toEqual(anchor);
      url = server.url;
      expect(await client.write(writeCall(), true)).toMatchObject({ kind: 'success' });
    } finally {
      await other.stop();
    }
  });

  it('[C16] ties every header to the last one that it has checked', async () => {
    const client = clientThrough();
    const first = writeCall();
    await client.write(first, true);
    const anchor = client.anchor;
    for (let n = 0; n < 5; n += 1) await clientThrough().write(writeCall(), false);
    await client.write(writeCall(), true);
    expect(client.anchor?.height).toBeGreaterThan((anchor?.height ?? 0) + 5);
    // A proof from before the newest header is of the chain as well.
    const key = first.operations[0]?.setEntity.key as string;
    expect(await client.verifiedRead({ organization }, key)).not.toBeNull();
  });

  it('[C16] does not believe a ledger whose chain is not that of its anchor', async () => {
    const height = (await call('ReadService/GetTip', {})).block as { header: { height: string } };
    const url = server.url;
    for (const back of [0, 3]) {
      const anchor = { height: Number(height.header.height) - back, hash: '5'.repeat(64) };
      const client = new LedgerClient({ url, headers: () => ADMIN, anchor });
      await expect(client.write(writeCall(), true)).rejects.toMatchObject({ status: 'unproven' });
      expect(client.anchor).toEqual(anchor);
    }
  });

  it('[C16] does not believe that an entity is absent beside a proof that it is there', async () => {
    const write = writeCall();
    await clientThrough().write(write, true);
    const key = write.operations[0]?.setEntity.key as string;
    const liar = clientThrough(({ exists: _e, value: _v, ...rest }) => rest);
    await expect(liar.verifiedRead({ organization }, key)).rejects.toMatchObject({
      status: 'unproven',
    });
    expect(await clientThrough().verifiedRead({ organization }, randomUUID())).toBeNull();
  });
});

describe('a writer whose write is in doubt', () => {
  const stream = () => ({ organization, clientId: randomUUID() as string });

  async function loseAnswer(
    setup: Pick<Parameters<typeof LedgerWriter.open>[0], 'storage' | 'stream'>,
    key: string,
  ) {
    const client = new LedgerClient({
      url: server.url,
      headers: () => ADMIN,
      async fetch(input, init) {
        const response = await fetch(input, init);
        return String(input).endsWith('/Write') ? new Promise<never>(() => {}) : response;
      },
    });
    const writer = await LedgerWriter.open({ ...setup, client, ttlMs: 4_000 });
    const lost = writer.write(set(key, 'x'));
    lost.catch(() => {});
    for (let version: unknown; version === undefined; ) {
      ({ version } = await call('ReadService/Read', { organization, key }));
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    writer.close();
  }

  async function nextLife(laterMs: number) {
    const setup = { storage: memoryStorage(), stream: stream() };
    const key = randomUUID();
    await loseAnswer(setup, key);
    await new Promise((resolve) => setTimeout(resolve, laterMs));
    // Another client's write moves the ledger's time on, and evicts whom it has forgotten.
    await clientThrough().write(writeCall(), false);
    const results: WriterResult[] = [];
    const world: ClientWorld = realWorld;
    const writer = await LedgerWriter.open({
      ...setup,
      world,
      client: clientThrough(),
      ttlMs: 4_000,
      onResult: (_, result) => results.push(result),
    });
    await writer.idle();
    const after = await writer.write(set(randomUUID(), 'y'));
    const { version } = await call('ReadService/Read', { organization, key });
    return { results, after, version };
  }

  it('[C16] reports it as unknown past the time of its key, and does not run it again', async () => {
    const { results, after, version } = await nextLife(4_500);
    expect(results[0]).toMatchObject({
      ok: false,
      code: 'OUTCOME_UNKNOWN',
      happened: 'unknown',
    });
    expect(version).toBe('1');
    expect(after).toMatchObject({ ok: true, sequence: 1n });
  });

  it('[C13] learns that it is committed within the time of its key', async () => {
    const { results, after, version } = await nextLife(0);
    expect(results[0]).toMatchObject({ ok: true });
    expect(version).toBe('1');
    expect(after).toMatchObject({ ok: true, sequence: 2n });
  });
});
