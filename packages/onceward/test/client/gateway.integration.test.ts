import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startGateway } from '../../../server/test/running-gateway.ts';
import { groups, Outbox } from '../../src/client/index.ts';
import { openLogStorage } from '../../src/client/storages/node-log.ts';

let folder: string;
let upstream: Server;
let charges: string[];
let gateway: Awaited<ReturnType<typeof startGateway>>;
let outbox: Outbox;

/** A bank that charges the card and then says nothing, for as long as anybody cares to wait. */
function silentBank(): Server {
  return createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => {
      body += piece;
    });
    request.on('end', () => {
      charges.push(`${request.url} ${body}`);
      if (request.url !== '/charge') response.writeHead(201).end('{}');
    });
  });
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'onceward-silent-'));
  charges = [];
  upstream = silentBank();
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const { port } = upstream.address() as AddressInfo;
  gateway = await startGateway(['--upstream', `http://127.0.0.1:${port}`], {
    ONCEWARD_DATA: join(folder, 'gateway'),
    ONCEWARD_UPSTREAM_TIMEOUT_SECONDS: '1',
  });
  const storage = await openLogStorage({ directory: join(folder, 'outbox') });
  outbox = new Outbox({
    storage,
    groups,
    retry: { baseMs: 20, capMs: 100, maxAttempts: 5 },
  });
});
afterEach(async () => {
  await outbox.close();
  await gateway.stop();
  upstream.closeAllConnections();
  await new Promise((resolve) => upstream.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

const charged = () => charges.filter((charge) => charge.startsWith('/charge'));

describe('the outbox before our own gateway, and an upstream that acts and falls silent', () => {
  it('[C14] [E16] charges once, calls it unknown, and a retry by a person keeps the key', async () => {
    const { id } = await outbox.enqueue({ url: `${gateway.url}/charge`, json: { amount: 900 } });
    expect(await outbox.whenSettled(id)).toMatchObject({ state: 'failed', outcome: 'unknown' });
    await outbox.failed.retry(id);
    expect(await outbox.whenSettled(id)).toMatchObject({ state: 'failed', outcome: 'unknown' });
    expect(charged()).toHaveLength(1);
  });

  it('[C15] leaves a group neither done nor undone', async () => {
    const { id } = await outbox.enqueueGroup([
      {
        url: `${gateway.url}/reserve`,
        json: { seat: 7 },
        undo: { url: `${gateway.url}/release`, json: { seat: 7 } },
      },
      { url: `${gateway.url}/charge`, json: { amount: 900 } },
    ]);
    expect(await outbox.whenSettled(id)).toMatchObject({ state: 'failed', outcome: 'unknown' });
    expect(charges.map((charge) => charge.split(' ')[0])).toEqual(['/reserve', '/charge']);
  });
});
