import { randomBytes, scryptSync } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, postJson, startServer, temporaryFolder } from './running-program.ts';

type Server = Awaited<ReturnType<typeof startServer>>;
type Headers = Readonly<Record<string, string>>;

const pair = (key: string, secret: string): Headers => ({
  'x-api-key': key,
  'x-api-secret': secret,
});

async function makeClient(url: string): Promise<Headers> {
  const response = await postJson(`${url}/credentials`, { role: 'client' }, ADMIN);
  expect(response.status).toBe(201);
  const { api_key, api_secret } = (await response.json()) as Record<string, string>;
  return pair(api_key ?? '', api_secret ?? '');
}

const look = (url: string, headers: Headers) => fetch(`${url}/v1/operations/s/k`, { headers });

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** A credential as the first version of the file kept it, with the slow hash. */
function slowCredential(apiKey: string, secret: string) {
  const salt = randomBytes(16);
  const hash = scryptSync(secret, salt, 32, { N: 16_384, r: 8, p: 1 });
  return {
    api_key: apiKey,
    role: 'client',
    tenant: apiKey,
    salt: salt.toString('hex'),
    hash: hash.toString('hex'),
    created_at: '2026-01-01T00:00:00.000Z',
  };
}

function writeCredentials(folder: string, credentials: readonly unknown[]): void {
  mkdirSync(folder, { recursive: true });
  const text = JSON.stringify({ version: 1, credentials });
  writeFileSync(join(folder, 'credentials.json'), text, { mode: 0o600 });
}

describe('guesses at credentials', () => {
  let server: Server;
  let client: Headers;
  beforeAll(async () => {
    server = await startServer();
    client = await makeClient(server.url);
  });
  afterAll(() => server.stop());

  it('[L6] a wrong secret takes as long for the configured key as for a known and an unknown one', async () => {
    const kinds = {
      configured: ADMIN['x-api-key'],
      known: client['x-api-key'] ?? '',
      unknown: 'ak_000000000000000000000000',
    };
    const times: Record<string, number[]> = { configured: [], known: [], unknown: [] };
    for (let round = 0; round < 30; round += 1) {
      for (const [kind, key] of Object.entries(kinds)) {
        const began = performance.now();
        const response = await look(server.url, pair(key, `sk_guess-${round}`));
        await response.arrayBuffer();
        times[kind]?.push(performance.now() - began);
        expect([401, 429]).toContain(response.status);
      }
    }
    const medians = Object.values(times).map(median);
    expect(Math.max(...medians) / Math.min(...medians)).toBeLessThan(4);
  });

  it('[L6] guesses are refused with 429 and Retry-After, alike for each kind of key', async () => {
    const own = await startServer();
    const { url } = own;
    const known = await makeClient(url);
    for (const key of [ADMIN['x-api-key'], known['x-api-key'] ?? '', 'ak_nobody']) {
      const statuses: number[] = [];
      let last: Response | null = null;
      for (let guess = 0; guess < 60; guess += 1) {
        last = await look(url, pair(key, `sk_guess-${guess}`));
        await last.arrayBuffer();
        statuses.push(last.status);
      }
      expect(new Set(statuses)).toEqual(new Set([401, 429]));
      expect(statuses.at(-1)).toBe(429);
      expect(Number(last?.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect((await look(url, known)).status).toBe(404);
    expect((await look(url, ADMIN)).status).toBe(404);
    await own.stop();
  });

  it('[L6] sixty connections of guesses keep no new client out', async () => {
    const fresh = await Promise.all(Array.from({ length: 10 }, () => makeClient(server.url)));
    let over = false;
    const guess = async (name: number) => {
      for (let round = 0; !over; round += 1) {
        const key = round % 2 === 0 ? `ak_${name}-${round}` : (client['x-api-key'] ?? '');
        await (await look(server.url, pair(key, `sk_${round}`))).arrayBuffer();
      }
    };
    const guessers = Array.from({ length: 60 }, (_, name) => guess(name));
    const statuses: number[] = [];
    for (const headers of fresh) statuses.push((await look(server.url, headers)).status);
    over = true;
    await Promise.all(guessers);
    expect(statuses).toEqual(fresh.map(() => 404));
  });
});

describe('credentials of the first version of the file', () => {
  const folder = temporaryFolder();
  const secret = `sk_${randomBytes(24).toString('base64url')}`;
  const other = `sk_${randomBytes(24).toString('base64url')}`;
  let server: Server;
  beforeAll(async () => {
    writeCredentials(folder.path, [
      slowCredential('ak_old', secret),
      slowCredential('ak_other', other),
    ]);
    server = await startServer({ ONCEWARD_DATA: folder.path });
  });
  afterAll(async () => {
    await server.stop();
    folder.remove();
  });

  it('[L6] go on working, also while strangers guess on sixty connections', async () => {
    let over = false;
    const guess = async (name: number) => {
      for (let round = 0; !over; round += 1) {
        const wrong = pair(`ak_stranger-${name}-${round}`, `sk_${round}`);
        await (await look(server.url, wrong)).arrayBuffer();
      }
    };
    const guessers = Array.from({ length: 60 }, (_, name) => guess(name));
    await new Promise((resolve) => setTimeout(resolve, 500));
    const first = await look(server.url, pair('ak_old', secret));
    const wrong = await look(server.url, pair('ak_old', 'sk_wrong'));
    const burst = Array.from({ length: 20 }, () => look(server.url, pair('ak_other', other)));
    const seconds = (await Promise.all(burst)).map(({ status }) => status);
    over = true;
    await Promise.all(guessers);
    expect(first.status).toBe(404);
    expect([401, 429]).toContain(wrong.status);
    expect(seconds).toEqual(seconds.map(() => 404));
  });

  it('[L6] are kept with the new hash once they have been used and the file is written', async () => {
    await makeClient(server.url);
    const text = readFileSync(join(folder.path, 'credentials.json'), 'utf8');
    const { credentials } = JSON.parse(text) as {
      credentials: { api_key: string; kind?: string }[];
    };
    expect(credentials.find(({ api_key }) => api_key === 'ak_old')?.kind).toBe('sha256');
    expect((await look(server.url, pair('ak_old', secret))).status).toBe(404);
    expect(text).not.toContain(secret.slice(3));
  });
});

describe('as many credentials as are kept', () => {
  it('[L6] [H16] one more than 10,000 is refused with 409, and a file that holds more is still read', async () => {
    const folder = temporaryFolder();
    const one = slowCredential('ak_0', 'sk_0');
    const many = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ ...one, api_key: `ak_${index}` }));
    try {
      writeCredentials(folder.path, many(10_000));
      const full = await startServer({ ONCEWARD_DATA: folder.path });
      const refused = await postJson(`${full.url}/credentials`, { role: 'client' }, ADMIN);
      expect(refused.status).toBe(409);
      expect(await refused.json()).toMatchObject({
        type: expect.stringMatching(/limit-reached$/),
        detail: expect.stringMatching(/10000.*revoke/),
      });
      const gone = await fetch(`${full.url}/credentials/ak_1`, {
        method: 'DELETE',
        headers: ADMIN,
      });
      expect(gone.status).toBe(204);
      await makeClient(full.url);
      await full.stop();

      writeCredentials(folder.path, many(10_001));
      const over = await startServer({ ONCEWARD_DATA: folder.path });
      expect((await look(over.url, ADMIN)).status).toBe(404);
      await over.stop();
    } finally {
      folder.remove();
    }
  });
});

describe('a damaged audit trail', () => {
  it('[H16] what cannot be read is counted, and the rest is shown', async () => {
    const folder = temporaryFolder();
    try {
      const line = (key: string) =>
        `${JSON.stringify({ at: 1, action: 'purge', scope: 's', key, by: 'ak_1', reason: 'r', from: 'committed', to: 'absent' })}\n`;
      mkdirSync(folder.path, { recursive: true });
      const bytes = Buffer.from(['a', 'b', 'c', 'd'].map(line).join(''));
      const length = line('a').length;
      bytes[length] = 0;
      bytes[2 * length + line('c').indexOf('"c"') + 1] = 0xff;
      writeFileSync(join(folder.path, 'audit.jsonl'), bytes);
      const server = await startServer({ ONCEWARD_DATA: folder.path });
      const response = await fetch(`${server.url}/admin/audit`, { headers: ADMIN });
      expect(response.status).toBe(200);
      const { lines, damaged } = (await response.json()) as {
        lines: { key: string }[];
        damaged: number;
      };
      expect(lines.map(({ key }) => key)).toEqual(['d', 'a']);
      expect(damaged).toBe(2);
      await server.stop();
    } finally {
      folder.remove();
    }
  });
});
