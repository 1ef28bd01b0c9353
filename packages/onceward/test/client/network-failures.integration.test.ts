import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { judgeFailure } from '../../src/client/index.ts';

type AnyServer = Server | ReturnType<typeof createTcpServer>;

const running: AnyServer[] = [];
afterEach(() => {
  for (const server of running.splice(0)) server.close();
});

async function listen(server: AnyServer): Promise<number> {
  running.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

async function verdictOf(url: string, signal?: AbortSignal) {
  const error: unknown = await fetch(url, { method: 'POST', body: '{}', signal: signal ?? null })
    .then((response) => response.text())
    .catch((reason) => reason);
  return judgeFailure(error);
}

describe('failures of a real network, as this platform reports them', () => {
  it('[C5] a port where nobody listens: nothing was sent', async () => {
    const port = await listen(createTcpServer());
    await new Promise((resolve) => running.pop()?.close(resolve));
    expect(await verdictOf(`http://127.0.0.1:${port}/`)).toEqual({
      kind: 'unreachable',
      reason: 'ECONNREFUSED',
      ran: 'no',
    });
  });

  it('[C5] a name that nobody has: nothing was sent', async () => {
    expect(await verdictOf('http://no-such-host.invalid/')).toMatchObject({ ran: 'no' });
  });

  it('[C5] a server whose TLS fails: nothing was sent, and the reason says why', async () => {
    // Without a certificate it has nothing to offer, and refuses every handshake.
    const port = await listen(createTlsServer({}));
    const verdict = await verdictOf(`https://127.0.0.1:${port}/`);
    expect(verdict).toMatchObject({ kind: 'unreachable', ran: 'no' });
    expect((verdict as { reason: string }).reason).toMatch(/SSL|TLS|CERT/);
  });

  it('[C5] a server that speaks no TLS at all: the same', async () => {
    const port = await listen(createServer((_request, response) => response.end()));
    const verdict = await verdictOf(`https://127.0.0.1:${port}/`);
    expect(verdict).toMatchObject({ kind: 'unreachable', ran: 'no' });
    expect((verdict as { reason: string }).reason).toMatch(/SSL|TLS|CERT/);
  });

  it.each([
    ['before the answer', ''],
    ['within the answer', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'],
  ])('[C5] a connection that breaks %s: it may have happened', async (_when, text) => {
    const port = await listen(
      createTcpServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => socket.end(text));
      }),
    );
    expect(await verdictOf(`http://127.0.0.1:${port}/`)).toMatchObject({
      kind: 'unreachable',
      ran: 'unknown',
    });
  });

  it('[C5] no answer in time: it may have happened', async () => {
    const port = await listen(createTcpServer((socket) => socket.on('error', () => {})));
    const url = `http://127.0.0.1:${port}/`;
    expect(await verdictOf(url, AbortSignal.timeout(50))).toMatchObject({
      reason: 'no answer in time',
      ran: 'unknown',
    });
  });
});
