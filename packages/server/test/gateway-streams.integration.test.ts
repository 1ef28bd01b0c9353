import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningGateway, startGateway } from './running-gateway.ts';
import { ADMIN } from './running-program.ts';

/** Answers line by line, each when the test says so. */
class LineServer {
  readonly #server = createServer((request, response) => this.#answer(request, response));
  readonly runs: ServerResponse[] = [];

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    request.resume();
    this.runs.push(response);
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://a');
    if (pathname === '/unchanged') {
      response.writeHead(304, { etag: '"1"', 'content-length': '1234' }).end();
    } else if (pathname === '/nothing') {
      response.writeHead(204, { 'x-is': 'nothing' }).end();
    } else if (pathname === '/small') {
      response.writeHead(201, { 'content-type': 'application/json' });
      response.write('{"a":');
      response.end('1}');
    } else if (pathname === '/reset') {
      request.socket.resetAndDestroy();
    } else {
      response.writeHead(200, { 'content-type': searchParams.get('type') ?? 'text/plain' });
      response.write('line 1\n');
    }
  }
}

const lines = new LineServer();
let gateway: RunningGateway;
let sync: RunningGateway;
beforeAll(async () => {
  const url = await lines.listen();
  gateway = await startGateway(['--upstream', url]);
  sync = await startGateway(['--upstream', url], { IDEMPOTENCY_PROFILE: 'sync' });
});
afterAll(async () => {
  await Promise.all([gateway.stop(), sync.stop()]);
  await lines.close();
});

let keys = 0;
const newKey = () => `stream-${(keys += 1)}`;
const post = (path: string, key: string, to = gateway) =>
  fetch(to.url + path, { method: 'POST', body: '{}', headers: { 'idempotency-key': key } });

describe('[H15] a keyed answer that streams', () => {
  for (const type of ['text/plain', 'application/jsonl', 'application/json', 'text/html']) {
    it(`as ${type} goes out as it comes, and is kept when it ends`, async () => {
      const key = newKey();
      const path = `/lines?type=${type}`;
      const runs = lines.runs.length;
      const response = await post(path, key);
      expect(response.headers.get('idempotency-replayed')).toBe('false');
      const reader = response.body!.getReader();
      const read = async () => Buffer.from((await reader.read()).value ?? []).toString();
      expect(await read()).toBe('line 1\n');
      const upstream = lines.runs.at(-1)!;
      for (const number of [2, 3]) {
        upstream.write(`line ${number}\n`);
        expect(await read()).toBe(`line ${number}\n`);
      }
      upstream.end();
      expect((await reader.read()).done).toBe(true);
      const retry = await post(path, key);
      expect(retry.headers.get('idempotency-replayed')).toBe('true');
      expect(await retry.text()).toBe('line 1\nline 2\nline 3\n');
      expect(lines.runs.length).toBe(runs + 1);
    });
  }

  it('goes on when its client leaves half-way, and is kept for the retry', async () => {
    const key = newKey();
    const runs = lines.runs.length;
    const response = await post('/lines', key);
    await response.body!.getReader().cancel();
    await sleep(100);
    lines.runs.at(-1)!.end('line 2\n');
    const retry = await post('/lines', key);
    expect(retry.headers.get('idempotency-replayed')).toBe('true');
    expect(await retry.text()).toBe('line 1\nline 2\n');
    expect(lines.runs.length).toBe(runs + 1);
  });

  it('and turns out too long to keep still arrives whole, and a retry is answered so', async () => {
    const key = newKey();
    const response = await post('/lines', key);
    const upstream = lines.runs.at(-1)!;
    for (let index = 0; index < 30; index += 1) upstream.write(Buffer.alloc(100_000, 'x'));
    upstream.end();
    expect((await response.arrayBuffer()).byteLength).toBe(3_000_007);
    expect((await post('/lines', key)).status).toBe(409);
  });

  it('and breaks off breaks off for the client too, and leaves the operation in doubt', async () => {
    const key = newKey();
    const response = await post('/lines', key);
    setTimeout(() => lines.runs.at(-1)!.socket?.resetAndDestroy(), 50);
    await expect(response.text()).rejects.toThrow();
    const retry = await post('/lines', key);
    expect(await retry.json()).toMatchObject({ type: expect.stringMatching(/outcome-unknown$/) });
  });

  it('within a moment is held back and kept, with its length', async () => {
    const key = newKey();
    const first = await post('/small', key);
    expect(first.headers.get('content-length')).toBe('7');
    expect(await (await post('/small', key)).json()).toEqual({ a: 1 });
  });
});

describe('[H15] an answer without a body', () => {
  it('that announces a length, as 304 does, passes through and leaves nothing in doubt', async () => {
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const plain = await fetch(`${gateway.url}/unchanged`);
      expect(plain.status).toBe(304);
      expect(plain.headers.get('etag')).toBe('"1"');
    }
    const key = newKey();
    const runs = lines.runs.length;
    for (const replayed of ['false', 'true']) {
      const keyed = await post('/unchanged', key);
      expect([keyed.status, keyed.headers.get('idempotency-replayed')]).toEqual([304, replayed]);
      expect(keyed.headers.get('etag')).toBe('"1"');
    }
    expect(lines.runs.length).toBe(runs + 1);
    const recent = await fetch(`${gateway.admin}/admin/idempotency/recent?state=in_doubt`, {
      headers: ADMIN,
    });
    const { records } = (await recent.json()) as { records: { key: string }[] };
    expect(records.map((record) => record.key)).not.toContain(key);
  });

  it('is kept as what it is', async () => {
    const key = newKey();
    expect((await post('/nothing', key)).status).toBe(204);
    const retry = await post('/nothing', key);
    expect([retry.status, retry.headers.get('x-is')]).toEqual([204, 'nothing']);
  });
});

describe('[H15] a fault of the upstream under profile sync', () => {
  it('speaks in the envelope of the profile', async () => {
    const response = await post('/reset', '0190b1a2-3c4d-4e5f-8a6b-7c8d9e0f1a2b', sync);
    expect(response.status).toBe(502);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await response.json()).toEqual({
      error: {
        code: 'UPSTREAM_RESET',
        message: expect.any(String),
        retry: 'same_key',
        happened: 'unknown',
      },
    });
  });
});
