import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientWorld, memoryStorage, type OutboxStorage, realWorld } from 'onceward/client';
import { LedgerClient, LedgerWriter, type WriterResult } from 'onceward/client/ledger';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, postJson, startServer } from './running-program.ts';

/** The ledger forgets a key after this; the writers here believe that it takes a day. */
const TTL_MS = 3_000;

let server: Awaited<ReturnType<typeof startServer>>;
let organization: string;

beforeAll(async () => {
  server = await startServer({
    LEDGER_CLIENT_TTL_SECONDS: String(TTL_MS / 1_000),
    LEDGER_EVICTION_INTERVAL: '1',
    // It would know an answer for longer than the key, until a restart.
    LEDGER_NEAR_TIER_ENTRIES: '0',
  });
  ({ organization } = (await call('AdminService/CreateOrganization', { name: 'Acme' })) as {
    organization: string;
  });
});
afterAll(() => server.stop());

async function call(method: string, body: object): Promise<Record<string, unknown>> {
  const answer = await postJson(`${server.url}/onceward.ledger.v1.${method}`, body, ADMIN);
  return (await answer.json()) as Record<string, unknown>;
}

const hasty: ClientWorld = {
  ...realWorld,
  startTimer: (ms, callback) =>
    realWorld.startTimer(ms === 30_000 ? ms : Math.min(ms, 20), callback),
};

interface Setup {
  readonly storage?: OutboxStorage;
  readonly clientId?: string;
  readonly send?: typeof fetch;
  readonly window?: number;
  readonly onResult?: (operations: readonly unknown[], result: WriterResult) => void;
  readonly refresh?: () => Promise<boolean>;
}

function openWriter({ send = fetch, clientId = randomUUID(), ...rest }: Setup = {}) {
  const client = new LedgerClient({
    url: server.url,
    headers: () => ADMIN,
    fetch: send,
    world: hasty,
  });
  const stream = { organization, clientId };
  return LedgerWriter.open({ storage: memoryStorage(), ...rest, client, stream, world: hasty });
}

const isWrite = (input: unknown) => String(input).endsWith('/Write');
const set = (key: string) => [{ setEntity: { key, value: new TextEncoder().encode(key) } }];
const versionOf = async (key: string) =>
  (await call('ReadService/Read', { organization, key })).version;

describe('[C16] a write whose answer was lost', () => {
  /** The answers to writes are never heard; the writer is closed when the ledger has committed one. */
  async function loseAnswer(setup: Setup, keys: readonly string[]): Promise<void> {
    let isCommitted = false;
    const writer = await openWriter({
      ...setup,
      window: 1,
      async send(input, init) {
        const response = await fetch(input, init);
        if (!isWrite(input)) return response;
        isCommitted = true;
        return new Promise<Response>(() => {});
      },
    });
    for (const key of keys) void writer.write(set(key)).catch(() => {});
    while (!isCommitted || writer.waiting < keys.length) await sleep(5);
    writer.close();
  }

  /** Past the window of keys; a write of another client moves the ledger's time on. */
  async function forget(afterMs = TTL_MS + 300): Promise<void> {
    await sleep(afterMs);
    await (await openWriter()).write(set(randomUUID()));
  }

  it('is not committed again by a writer that trusts a key for longer than the ledger', async () => {
    const setup = { storage: memoryStorage(), clientId: randomUUID() };
    const [sent, unsent] = [randomUUID(), randomUUID()];
    await loseAnswer(setup, [sent, unsent]);
    expect(await versionOf(sent)).toBe('1');
    await forget();
    const results: WriterResult[] = [];
    const writer = await openWriter({
      ...setup,
      onResult: (_, result) => void results.push(result),
    });
    await writer.idle();
    expect(await versionOf(sent)).toBe('1');
    expect(results).toMatchObject([
      { ok: false, code: 'KEY_EXPIRED', happened: 'unknown' },
      { ok: true, sequence: 1n },
    ]);
    // What was never sent goes on, and so does the stream.
    expect(await versionOf(unsent)).toBe('1');
    expect(await writer.write(set(randomUUID()))).toMatchObject({ ok: true, sequence: 2n });
  });

  it('is not committed again though the ledger still counts for its client', async () => {
    const setup = { storage: memoryStorage(), clientId: randomUUID() };
    const sent = randomUUID();
    await loseAnswer(setup, [sent]);
    await sleep(TTL_MS * 0.7);
    await (await openWriter({ clientId: setup.clientId })).write(set(randomUUID()));
    await forget(TTL_MS * 0.4);
    const results: WriterResult[] = [];
    const writer = await openWriter({
      ...setup,
      onResult: (_, result) => void results.push(result),
    });
    await writer.idle();
    expect(results).toMatchObject([{ ok: false, code: 'KEY_EXPIRED', happened: 'unknown' }]);
    expect(await versionOf(sent)).toBe('1');
  });

  it('says when it was first sent with every repeat, and only then', async () => {
    const said: (string | null)[] = [];
    const began = Math.floor(Date.now() / 1_000) * 1_000;
    const writer = await openWriter({
      async send(input, init) {
        if (!isWrite(input)) return fetch(input, init);
        said.push(new Headers(init?.headers).get('idempotency-first-sent'));
        if (said.length < 3) throw new TypeError('lost on the way there');
        return fetch(input, init);
      },
    });
    expect(await writer.write(set(randomUUID()))).toMatchObject({ ok: true });
    expect(said).toEqual([null, said[1], said[1]]);
    expect(Date.parse(said[1] ?? '')).toBeGreaterThanOrEqual(began);
    expect(Date.parse(said[1] ?? '')).toBeLessThanOrEqual(Date.now());
  });
});

describe('[C14] a refused call', () => {
  const post = (debit: string) => ({
    asset: 'USD',
    amount: '1',
    debit: { accountId: debit },
    credit: { accountId: 'acct_998' },
  });
  const cases = [
    ['INVALID_FIELD', { setEntity: { key: '', value: '' } }],
    ['ACCOUNT_NOT_FOUND', { post: post('acct_999') }],
    ['invalid_argument', { setEntity: { misspelt: '' } }],
  ] as const;

  it.each(cases)('%s says of a first send that it did not happen', async (code, operation) => {
    const writer = await openWriter();
    expect(await writer.write([operation])).toMatchObject({ ok: false, code, happened: 'no' });
  });

  it.each(cases)(
    '%s says nothing of an earlier send without an answer',
    async (code, operation) => {
      let lost = 0;
      const writer = await openWriter({
        async send(input, init) {
          const response = await fetch(input, init);
          if (!isWrite(input) || lost > 0) return response;
          lost += 1;
          throw new TypeError('lost on the way back');
        },
      });
      const refused = writer.write([operation]);
      const behind = writer.write(set(randomUUID()));
      expect(await refused).toMatchObject({ ok: false, code, happened: 'unknown' });
      expect(await behind).toMatchObject({ ok: true, sequence: 1n });
    },
  );

  it('in the words of someone before the ledger says nothing of what happened', async () => {
    const writer = await openWriter({
      async send(input, init) {
        if (!isWrite(input)) return fetch(input, init);
        return Response.json({ code: 'FORBIDDEN', message: 'not from here' }, { status: 403 });
      },
    });
    expect(await writer.write(set(randomUUID()))).toMatchObject({
      ok: false,
      code: 'FORBIDDEN',
      happened: 'unknown',
    });
  });
});

describe('[C13] a writer that is opened on an empty storage', () => {
  it('without a connection keeps what it is given, and counts from where the ledger is', async () => {
    const clientId = randomUUID();
    const before = await openWriter({ clientId });
    await before.write(set(randomUUID()));
    let isOnline = false;
    const sent: string[] = [];
    const writer = await openWriter({
      clientId,
      async send(input, init) {
        if (!isOnline) throw new TypeError('offline');
        if (isWrite(input)) sent.push((JSON.parse(String(init?.body)) as Sent).sequence);
        return fetch(input, init);
      },
    });
    const write = writer.write(set(randomUUID()));
    while (writer.waiting === 0) await sleep(5);
    isOnline = true;
    expect(await write).toMatchObject({ ok: true, sequence: 2n });
    expect(sent).toEqual(['2']);
    expect(writer.lastUsedSequence).toBe(2n);
  });

  function signedIn(isGood: () => boolean): typeof fetch {
    return (input, init) => {
      const headers = new Headers(init?.headers);
      if (!isGood()) headers.set('x-api-secret', 'expired');
      return fetch(input, { ...init, headers });
    };
  }

  it('with a credential that has expired asks for another', async () => {
    let isGood = false;
    let asked = 0;
    const writer = await openWriter({
      send: signedIn(() => isGood),
      async refresh() {
        asked += 1;
        isGood = true;
        return true;
      },
    });
    expect(await writer.write(set(randomUUID()))).toMatchObject({ ok: true, sequence: 1n });
    expect(asked).toBe(1);
    // The ledger has accepted one since.
    isGood = false;
    expect(await writer.write(set(randomUUID()))).toMatchObject({ ok: true, sequence: 2n });
    expect(asked).toBe(2);
  });

  it('is paused if there is no other credential, and goes on after a new sign-in', async () => {
    let isGood = false;
    const writer = await openWriter({ send: signedIn(() => isGood) });
    const write = writer.write(set(randomUUID()));
    while (!writer.isPaused) await sleep(5);
    isGood = true;
    writer.resume();
    expect(await write).toMatchObject({ ok: true, sequence: 1n });
  });

  it('is refused if the ledger cannot know it', async () => {
    const client = new LedgerClient({ url: server.url, headers: () => ADMIN });
    const stream = { organization: 'Acme!', clientId: 'x' };
    const opened = LedgerWriter.open({ client, storage: memoryStorage(), stream });
    await expect(opened).rejects.toMatchObject({ name: 'LedgerCallError', isTransient: false });
  });
});

interface Sent {
  readonly sequence: string;
}
