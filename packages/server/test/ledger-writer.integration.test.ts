import { randomUUID } from 'node:crypto';
import { type ClientWorld, memoryStorage, type OutboxStorage, realWorld } from 'onceward/client';
import { LedgerClient, LedgerWriter, type WriterResult } from 'onceward/client/ledger';
import { openLogStorage } from 'onceward/client/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, startServer, temporaryFolder } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
let organization: string;

beforeAll(async () => {
  server = await startServer();
  const response = await fetch(`${server.url}/onceward.ledger.v1.AdminService/CreateOrganization`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...ADMIN },
    body: '{"name":"Acme"}',
  });
  ({ organization } = (await response.json()) as { organization: string });
});
afterAll(() => server.stop());

const DEADLINE = 29_000;

/** Waits between tries are cut short; deadlines are not. */
const hasty: ClientWorld = {
  ...realWorld,
  startTimer: (ms, callback) => realWorld.startTimer(ms === DEADLINE ? ms : ms / 50, callback),
};

function clientWith(send: typeof fetch = fetch): LedgerClient {
  return new LedgerClient({
    url: server.url,
    headers: () => ADMIN,
    fetch: send,
    world: hasty,
    timeoutMs: DEADLINE,
  });
}

interface Setup {
  readonly clientId?: string;
  readonly storage?: OutboxStorage;
  readonly send?: typeof fetch;
  readonly refresh?: () => Promise<boolean>;
}

function openWriter(setup: Setup = {}) {
  const { clientId = randomUUID(), storage = memoryStorage(), send, ...rest } = setup;
  const stream = { organization, clientId };
  return LedgerWriter.open({
    ...rest,
    client: clientWith(send),
    storage,
    stream,
    world: hasty,
    verify: true,
  });
}

/** Fails if it is run a second time. */
const setOnce = (key: string) => [
  { setEntity: { key, value: new TextEncoder().encode(key), condition: { notExists: true } } },
];

const sequences = (results: readonly WriterResult[]) =>
  results.map((result) => (result.ok ? Number(result.sequence) : result.code));
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

/** Some requests are lost on the way there, some answers on the way back. */
function lossy(): typeof fetch {
  let calls = 0;
  return async (input, init) => {
    calls += 1;
    if (calls % 5 === 0) throw new TypeError('lost on the way there');
    const response = await fetch(input, init);
    if (calls % 3 === 0) throw new TypeError('lost on the way back');
    return response;
  };
}

describe('[C13] a sequenced writer', () => {
  it('has stored a sequence before it sends it', async () => {
    const storage = memoryStorage();
    const clientId = randomUUID();
    const early: string[] = [];
    const writer = await openWriter({
      clientId,
      storage,
      async send(input, init) {
        const { sequence } = JSON.parse(String(init?.body)) as { sequence?: string };
        const entries = await storage.range({ prefix: 'ledger/', limit: 1_000 });
        const text = JSON.stringify(entries);
        const head = Number(/"last_used_sequence":"(\d+)"/.exec(text)?.[1] ?? 0);
        const isStored = head >= Number(sequence) && text.includes(`"sequence":"${sequence}"`);
        if (sequence !== undefined && !isStored) early.push(sequence);
        return fetch(input, init);
      },
    });
    const results = await Promise.all(
      upTo(20).map((at) => writer.write(setOnce(`${clientId}${at}`))),
    );
    expect(sequences(results)).toEqual(upTo(20));
    expect(early).toEqual([]);
    expect(await storage.count('ledger/')).toBe(1);
  });

  it('runs each write once and in order, whatever is lost on the way', async () => {
    const clientId = randomUUID();
    const writer = await openWriter({ clientId, send: lossy() });
    const results = await Promise.all(
      upTo(60).map((at) => writer.write(setOnce(`${clientId}${at}`))),
    );
    expect(sequences(results)).toEqual(upTo(60));
    expect(await clientWith().lastCommittedSequence({ organization, clientId })).toBe(60n);
  });

  it('sends after a restart what it had not heard of, under the same keys', async () => {
    const folder = temporaryFolder();
    const clientId = randomUUID();
    const storage = await openLogStorage({ directory: folder.path });
    let answers = 0;
    const first = await openWriter({
      clientId,
      storage,
      async send(input, init) {
        const response = await fetch(input, init);
        answers += 1;
        // From here on no answer arrives, as if the process were dead.
        return answers > 4 ? new Promise<Response>(() => {}) : response;
      },
    });
    const lost = Promise.allSettled(upTo(6).map((at) => first.write(setOnce(`${clientId}${at}`))));
    while (answers < 6) await new Promise((resolve) => setTimeout(resolve, 10));
    first.close();
    await lost;
    await storage.close();

    const again = await openLogStorage({ directory: folder.path });
    const second = await openWriter({ clientId, storage: again });
    expect(second.waiting).toBeGreaterThan(0);
    await second.idle();
    expect(await clientWith().lastCommittedSequence({ organization, clientId })).toBe(6n);
    expect(await second.write(setOnce(`${clientId}7`))).toMatchObject({ ok: true, sequence: 7n });
    await again.close();
    folder.remove();
  });

  it('rejects a caller whose write is being stored as closed, and sends it when opened again', async () => {
    const clientId = randomUUID();
    const memory = memoryStorage();
    let isStoring = () => {};
    const storing = new Promise<void>((resolve) => {
      isStoring = resolve;
    });
    const slow: OutboxStorage = {
      ...memory,
      async swap(changes) {
        isStoring();
        await new Promise((resolve) => setTimeout(resolve, 50));
        return memory.swap(changes);
      },
    };
    const first = await openWriter({ clientId, storage: slow });
    const write = first.write(setOnce(clientId));
    await storing;
    first.close();
    await expect(write).rejects.toMatchObject({ code: 'OUTBOX_CLOSED' });

    const second = await openWriter({ clientId, storage: memory });
    expect(second.waiting).toBe(1);
    await second.idle();
    expect(second.lastUsedSequence).toBe(1n);
  });

  it('that lost its storage goes on from where the ledger is', async () => {
    const clientId = randomUUID();
    const first = await openWriter({ clientId });
    for (const at of upTo(3)) await first.write(setOnce(`${clientId}${at}`));
    const second = await openWriter({ clientId });
    expect(second.lastUsedSequence).toBe(3n);
    expect(await second.write(setOnce(`${clientId}4`))).toMatchObject({ ok: true, sequence: 4n });
  });

  it('recovers from a gap through the state that the ledger has', async () => {
    const clientId = randomUUID();
    const storage = memoryStorage();
    const head = { version: 9, last_used_sequence: '41' };
    await storage.swap([{ key: `ledger/${organization}//${clientId}/head`, next: head }]);
    const asked: string[] = [];
    const writer = await openWriter({
      clientId,
      storage,
      send(input, init) {
        asked.push(String(input).replace(/.*\//, ''));
        return fetch(input, init);
      },
    });
    const results = await Promise.all(
      upTo(5).map((at) => writer.write(setOnce(`${clientId}${at}`))),
    );
    expect(sequences(results)).toEqual(upTo(5));
    expect(asked).toContain('GetClientState');
    expect(writer.lastUsedSequence).toBe(5n);
  });

  it('moves the writes behind a refused one up, so that no gap is left', async () => {
    const clientId = randomUUID();
    const writer = await openWriter({ clientId });
    const keys = ['a', 'b', 'a', 'c', 'd', ''].map((key) => (key === '' ? '' : clientId + key));
    const results = await Promise.all(keys.map((key) => writer.write(setOnce(key))));
    expect(sequences(results)).toEqual([1, 2, 'KEY_EXISTS', 3, 4, 'INVALID_FIELD']);
    expect(await writer.write(setOnce(`${clientId}e`))).toMatchObject({ ok: true, sequence: 5n });
  });

  it('does not let a second writer on the same storage take its numbers', async () => {
    const setup = { clientId: randomUUID(), storage: memoryStorage() };
    const [one, two] = [await openWriter(setup), await openWriter(setup)];
    expect(await one.write(setOnce(randomUUID()))).toMatchObject({ ok: true });
    await expect(two.write(setOnce(randomUUID()))).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
    });
  });
});

describe('[C13] a writer whose credential has expired', () => {
  /** The server refuses calls that carry a wrong secret; `isGood` says whether the right one goes out. */
  function signedIn(isGood: () => boolean): typeof fetch {
    return (input, init) => {
      const headers = new Headers(init?.headers);
      if (!isGood()) headers.set('x-api-secret', 'expired');
      return fetch(input, { ...init, headers });
    };
  }

  it('is paused, keeps what it was given, and goes on after a new sign-in', async () => {
    const clientId = randomUUID();
    let isGood = true;
    const writer = await openWriter({ clientId, send: signedIn(() => isGood) });
    expect(await writer.write(setOnce(`${clientId}0`))).toMatchObject({ ok: true });
    isGood = false;
    const writes = upTo(12).map((at) => writer.write(setOnce(`${clientId}${at}`)));
    while (!writer.isPaused) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(writer.waiting).toBe(12);
    isGood = true;
    writer.resume();
    expect(sequences(await Promise.all(writes))).toEqual(upTo(12).map((at) => at + 1));
    expect(writer.isPaused).toBe(false);
  });

  it('asks for another credential once, and is not paused if it gets one', async () => {
    const clientId = randomUUID();
    let isGood = true;
    let asked = 0;
    const writer = await openWriter({
      clientId,
      send: signedIn(() => isGood),
      async refresh() {
        asked += 1;
        isGood = true;
        return true;
      },
    });
    isGood = false;
    const writes = upTo(20).map((at) => writer.write(setOnce(`${clientId}${at}`)));
    expect(sequences(await Promise.all(writes))).toEqual(upTo(20));
    expect(asked).toBe(1);
    expect(writer.isPaused).toBe(false);
  });

  it('does not say of a committed write that it did not happen, if the headers of its proof were refused', async () => {
    const said: string[] = [];
    const refuse = (status: number, code: string) => {
      said.push(code);
      return Response.json({ code, message: 'not you' }, { status });
    };
    const writer = await openWriter({
      async send(input, init) {
        const [call] = /[^/]*$/.exec(String(input)) ?? [];
        if (call === 'GetHeaders' && said.length === 0) return refuse(401, 'unauthenticated');
        const isRefused = said.length === 1 || said.length === 2;
        if (call === 'Write' && isRefused) return refuse(403, 'permission_denied');
        return fetch(input, init);
      },
      refresh: async () => true,
    });
    expect(await writer.write(setOnce(randomUUID()))).toMatchObject({ ok: true });
    // Blocks in between, which the client has to follow.
    const other = await openWriter();
    for (const _ of upTo(2)) await other.write(setOnce(randomUUID()));
    const result = await writer.write(setOnce(randomUUID()));
    expect(said).toEqual(['unauthenticated', 'permission_denied', 'permission_denied']);
    expect(result).toMatchObject({ ok: true, sequence: 2n });
  });

  it('is paused if the other credential is refused too', async () => {
    let isGood = true;
    let asked = 0;
    const writer = await openWriter({
      send: signedIn(() => isGood),
      async refresh() {
        asked += 1;
        return true;
      },
    });
    isGood = false;
    const write = writer.write(setOnce(randomUUID()));
    while (!writer.isPaused || asked === 0) await new Promise((r) => setTimeout(r, 5));
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(asked).toBe(1);
    isGood = true;
    writer.resume();
    expect(await write).toMatchObject({ ok: true, sequence: 1n });
  });
});

describe('[C13] a writer behind someone who answers in the place of the ledger', () => {
  it.each([
    ['429 without a word of the ledger', () => new Response('slow down', { status: 429 })],
    ['200 with an empty object', () => new Response('{}')],
    ['200 that is cut off', () => new Response('{"success":{"txId"')],
  ])('sends again after %s, under the same key', async (_title, answer) => {
    let calls = 0;
    const writer = await openWriter({
      async send(input, init) {
        const response = await fetch(input, init);
        if (!String(input).endsWith('/Write')) return response;
        calls += 1;
        return calls === 1 ? answer() : response;
      },
    });
    const result = await writer.write(setOnce(randomUUID()));
    expect(result).toMatchObject({ ok: true, sequence: 1n });
    expect(calls).toBe(2);
  });
});

describe('[C13] a write that was sent and got no answer', () => {
  const refusals: [string, () => Response][] = [
    ['403 from someone before the ledger', () => new Response('not from here', { status: 403 })],
    ['404 from someone before the ledger', () => new Response('no such site', { status: 404 })],
    [
      'permission_denied',
      () => Response.json({ code: 'permission_denied', message: 'not you' }, { status: 403 }),
    ],
  ];

  /** The first write is committed and its answer lost; then come refusals, and in the end the ledger itself. */
  function refusing(refusal: () => Response): typeof fetch {
    let calls = 0;
    return async (input, init) => {
      if (!String(input).endsWith('/Write')) return fetch(input, init);
      calls += 1;
      if (calls > 1 && calls < 4) return refusal();
      const response = await fetch(input, init);
      if (calls === 1) throw new TypeError('lost on the way back');
      return response;
    };
  }

  it.each(refusals)('is not given up because of a %s', async (_title, refusal) => {
    const writer = await openWriter({ send: refusing(refusal) });
    const result = await writer.write(setOnce(randomUUID()));
    expect(result).toMatchObject({ ok: true, sequence: 1n });
  });

  it('is not given up by the next life either', async () => {
    const setup = { clientId: randomUUID(), storage: memoryStorage() };
    const silent: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      return String(input).endsWith('/Write') ? new Promise(() => {}) : response;
    };
    const first = await openWriter({ ...setup, send: silent });
    const lost = first.write(setOnce(randomUUID()));
    while (first.waiting === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    first.close();
    await expect(lost).rejects.toMatchObject({ code: 'OUTBOX_CLOSED' });
    let refusals = 0;
    const second = await openWriter({
      ...setup,
      async send(input, init) {
        if (!String(input).endsWith('/Write') || refusals === 2) return fetch(input, init);
        refusals += 1;
        return new Response('', { status: 403 });
      },
    });
    await second.idle();
    expect(await second.write(setOnce(randomUUID()))).toMatchObject({ ok: true, sequence: 2n });
  });

  it('is distinguished from one that was refused at its first send, which did not happen', async () => {
    const writer = await openWriter({
      async send(input, init) {
        const isWrite = String(input).endsWith('/Write');
        return isWrite ? new Response('', { status: 403 }) : fetch(input, init);
      },
    });
    const result = await writer.write(setOnce(randomUUID()));
    expect(result).toMatchObject({ ok: false, code: 'http_403' });
  });
});

describe('[C13] [S9] a client', () => {
  it('believes a read because of its proof alone', async () => {
    const writer = await openWriter();
    const key = randomUUID();
    await writer.write(setOnce(key));
    const found = await clientWith().verifiedRead({ organization }, key);
    expect(new TextDecoder().decode(found?.value)).toBe(key);
    expect(await clientWith().verifiedRead({ organization }, randomUUID())).toBeNull();
    const liar = clientWith(async (input, init) => {
      const text = await (await fetch(input, init)).text();
      return new Response(text.replace(/"value":"[^"]+"/, `"value":"${btoa('another')}"`));
    });
    await expect(liar.verifiedRead({ organization }, key)).rejects.toThrow(/proof/);
  });
});
