import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RunningGateway, startGateway } from './running-gateway.ts';

let upstream: Server;
let gateway: RunningGateway;
const bodies: string[] = [];

beforeAll(async () => {
  upstream = createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => {
      body += piece;
    });
    request.on('end', () => {
      bodies.push(`${request.url} ${body}`);
      if (request.url === '/huge') {
        response.end(Buffer.alloc(64 * 1_048_576));
        return;
      }
      const slow = request.url === '/slow' ? 300 : 0;
      if (request.url !== '/silent') setTimeout(() => response.end(`of ${request.url}`), slow);
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const { port } = upstream.address() as AddressInfo;
  gateway = await startGateway(['--upstream', `http://127.0.0.1:${port}`], {
    ONCEWARD_UPSTREAM_CONNECTIONS: '300',
    ONCEWARD_UPSTREAM_TIMEOUT_SECONDS: '60',
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.closeAllConnections();
  await new Promise((resolve) => upstream.close(resolve));
});

const FIRST = 'GET /slow HTTP/1.1\r\nHost: a\r\n\r\n';

async function exchange(bytes: string, until: RegExp): Promise<string> {
  const connection = await gateway.open();
  connection.socket.write(bytes);
  for (let turn = 0; turn < 100 && !until.test(connection.text()); turn += 1) {
    if (connection.socket.destroyed) break;
    await sleep(20);
  }
  connection.socket.destroy();
  return connection.text();
}

it('[H15] 100 Continue never stands inside an answer that waits for the one before', async () => {
  const expecting =
    'POST /second HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}';
  const text = await exchange(FIRST + expecting, /of \/second/);
  const parts = text.split('HTTP/1.1 ').slice(1);
  const answers = parts.filter((part) => !part.startsWith('100'));
  expect(answers.map((part) => part.slice(0, 3))).toEqual(['200', '200']);
  expect(answers[1]).toMatch(/\r\n\r\nof \/second$/);
});

it.each([
  ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['an upgrade', 'GET /u HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
])('[H15] %s behind a running request is not answered in its place', async (_what, second) => {
  const text = await exchange(FIRST + second, /never/);
  expect(text).not.toMatch(/tunnels|101/);
});

it('[H15] a header behind two thousand others still counts', async () => {
  const padding = 'a:\r\n'.repeat(2_100);
  const head = `POST /padded HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${padding}Content-Length: 4\r\n\r\nbody`;
  await exchange(head, /of \/padded/);
  expect(bodies).toContain('/padded body');
});

it('[H15] a connection that pipelines without end is cut, and others are served', async () => {
  const connection = await gateway.open();
  connection.socket.write('GET /silent HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2_000));
  const closed = new Promise((resolve) => connection.socket.once('close', resolve));
  await closed;
  expect((await fetch(`${gateway.url}/after`)).status).toBe(200);
});

it('[H15] clients that read nothing do not keep the upstream from all others', async () => {
  const { port } = upstream.address() as AddressInfo;
  const narrow = await startGateway(['--upstream', `http://127.0.0.1:${port}`], {
    ONCEWARD_UPSTREAM_CONNECTIONS: '2',
    ONCEWARD_UPSTREAM_TIMEOUT_SECONDS: '1',
  });
  const idle = await Promise.all([narrow.open(), narrow.open()]);
  for (const { socket } of idle) {
    socket.pause();
    socket.write('GET /huge HTTP/1.1\r\nHost: a\r\n\r\n');
  }
  await sleep(300);
  const headers = { 'idempotency-key': 'k9' };
  const signal = AbortSignal.timeout(15_000);
  const served = await fetch(`${narrow.url}/paid`, { method: 'POST', headers, body: '{}', signal });
  expect(served.status).toBe(200);
  for (const { socket } of idle) socket.destroy();
  await narrow.stop();
});
