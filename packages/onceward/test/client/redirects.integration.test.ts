import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Outbox, type OutboxOptions } from '../../src/client/index.ts';
import { openLogStorage } from '../../src/client/storages/node-log.ts';

const quick = { baseMs: 5, capMs: 10, maxAttempts: 3 };

let folder: string;
let server: Server;
let url: string;
let status: number;
let keys: (string | undefined)[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'onceward-redirects-'));
  keys = [];
  server = createServer((request, response) => {
    request.resume();
    if (request.url === '/login') {
      response.setHeader('content-type', 'text/html').end('<form>Sign in</form>');
      return;
    }
    keys.push(request.headers['idempotency-key'] as string);
    response.writeHead(status, { location: '/login' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

async function openOutbox(more: Partial<OutboxOptions> = {}): Promise<Outbox> {
  const storage = await openLogStorage({ directory: join(folder, 'outbox') });
  return new Outbox({ storage, retry: quick, ...more });
}

it.each([301, 302, 303])(
  '[C18] an API that answers %i to a page for signing in has not done the operation',
  async (answered) => {
    status = answered;
    const outbox = await openOutbox();
    const { id } = await outbox.enqueue({ url: `${url}/orders`, json: { item: 'tea' } });
    const settled = await outbox.whenSettled(id);
    expect(settled).toMatchObject({ state: 'failed', outcome: 'unknown' });
    expect((settled as { reason: string }).reason).toContain('/login');
    expect(new Set(keys).size).toBe(1);
    await outbox.close();
  },
);

it('[C18] an application that knows its redirects can call them done', async () => {
  status = 303;
  const outbox = await openOutbox({ isDone: ({ url: at }) => at.endsWith('/login') });
  const { id } = await outbox.enqueue({ url: `${url}/orders`, json: { item: 'tea' } });
  expect(await outbox.whenSettled(id)).toMatchObject({ state: 'done' });
  await outbox.close();
});
