import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RawConnection, type RunningGateway, startGateway } from './running-gateway.ts';
import { UpstreamServer } from './upstream-server.ts';

const MIB = 1_048_576;
const upstream = new UpstreamServer();
let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startGateway(['--upstream', await upstream.listen()]);
});
afterAll(async () => {
  await gateway.stop();
  await upstream.close();
});

let keys = 0;
const newKey = () => `rough-${(keys += 1)}`;

/** A keyed request is answered soon, whatever has happened before. */
async function expectService(withinMs = 1_000): Promise<void> {
  const began = performance.now();
  const response = await fetch(`${gateway.url}/next`, {
    method: 'POST',
    body: Buffer.alloc(100_000),
    headers: { 'idempotency-key': newKey() },
    signal: AbortSignal.timeout(20_000),
  });
  expect(response.status).toBe(201);
  expect(performance.now() - began).toBeLessThan(withinMs);
}

function head(path: string, framing: string): string {
  return `POST ${path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ${newKey()}\r\n${framing}\r\n\r\n`;
}

function openMany(count: number): Promise<RawConnection[]> {
  return Promise.all(Array.from({ length: count }, () => gateway.open()));
}

function leave(connections: readonly RawConnection[]): void {
  for (const { socket } of connections) socket.destroy();
}

describe('[H15] keyed traffic goes on', () => {
  it('after a burst of chunked requests whose clients gave up waiting', async () => {
    const clients = await openMany(80);
    for (const { socket } of clients) {
      socket.write(
        `${head('/burst?delay=1500', 'Transfer-Encoding: chunked')}2\r\n{}\r\n0\r\n\r\n`,
      );
    }
    await sleep(700);
    leave(clients);
    await sleep(1_500);
    await expectService();
  }, 60_000);

  it('after pipelined requests whose client disconnected', async () => {
    for (const body of [
      'Content-Length: 2\r\n\r\n{}',
      'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ]) {
      const [client] = await openMany(1);
      const one = () => head('/large?delay=50', body).replace(/\r\n\r\n$/, '');
      client!.socket.write(Array.from({ length: 48 }, one).join(''));
      await sleep(150);
      leave([client!]);
      await sleep(500);
      await expectService();
    }
  }, 60_000);

  it('while uploads stall after their first byte', async () => {
    const clients = await openMany(1_500);
    clients.forEach(({ socket }, index) => {
      const framing = index % 2 === 0 ? `Content-Length: ${MIB}` : 'Transfer-Encoding: chunked';
      socket.write(`${head('/idle', framing)}${index % 2 === 0 ? 'x' : '1\r\nx\r\n'}`);
    });
    await sleep(300);
    await expectService(2_000);
    leave(clients);
    await expectService();
    expect(upstream.count('/idle')).toBe(0);
  }, 60_000);

  it('while uploads stall before their last byte', async () => {
    const clients = await openMany(50);
    for (const { socket } of clients) {
      socket.write(head('/almost', `Content-Length: ${MIB}`));
      socket.write(Buffer.alloc(MIB - 1, 'x'));
    }
    await sleep(500);
    await expectService(3_000);
    leave(clients);
    await expectService();
    expect(upstream.count('/almost')).toBe(0);
  }, 60_000);

  it('while answers are left unread', async () => {
    const clients = await openMany(40);
    for (const { socket } of clients) {
      socket.pause();
      const request = () => `${head('/sized?bytes=1000000', 'Content-Length: 2')}{}`;
      socket.write(Array.from({ length: 5 }, request).join(''));
    }
    // Until nothing moves any more.
    for (let before = -1; before !== upstream.count('/sized'); await sleep(1_500)) {
      before = upstream.count('/sized');
    }
    await expectService(3_000);
    leave(clients);
    await sleep(300);
    await expectService();
  }, 60_000);
});

describe('[H15] a body that comes too slowly', () => {
  it('is refused with 408, keyed or not, and nothing of it is sent', async () => {
    const keyed = await gateway.open();
    keyed.socket.write(`${head('/slowly', 'Content-Length: 100')}x`);
    const plain = await gateway.open();
    plain.socket.write('POST /slowly HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx');
    for (const { socket, text } of [keyed, plain]) {
      if (!socket.destroyed) await once(socket, 'close');
      expect(text()).toMatch(/^HTTP\/1\.1 408 [\s\S]*application\/problem\+json/);
      expect(text()).toMatch(/request-timeout/);
    }
    expect(upstream.count('/slowly')).toBe(0);
  }, 60_000);

  it('but fast enough arrives', async () => {
    const { socket, text } = await gateway.open();
    socket.write(head('/steadily', 'Content-Length: 28000'));
    for (let sent = 0; sent < 28; sent += 1) {
      socket.write(Buffer.alloc(1_000, 'x'));
      await sleep(250);
    }
    for (let tries = 0; tries < 200 && !text().includes('}'); tries += 1) await sleep(25);
    expect(text()).toMatch(/^HTTP\/1\.1 201 [\s\S]*"bytes":28000/);
    socket.destroy();
  }, 60_000);
});

describe('[H15] rubbish behind a request', () => {
  for (const path of ['/events', '/late?delay=500']) {
    it(`never puts a second head into the answer of ${path}, or before it`, async () => {
      const { socket, text } = await gateway.open();
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      if (path === '/events') {
        for (let tries = 0; tries < 200 && !text().includes('data: 1'); tries += 1) await sleep(10);
      }
      socket.write('this is not HTTP\r\n\r\n');
      await once(socket, 'close');
      expect(text().match(/HTTP\/1\.1/g) ?? []).toHaveLength(path === '/events' ? 1 : 0);
      await expectService();
    });
  }

  it('or a tunnel that is asked for and reset does not end the gateway', async () => {
    for (let round = 0; round < 20; round += 1) {
      const { socket } = await gateway.open();
      socket.write('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n');
      if (round % 2 === 0) await sleep(5);
      socket.write('GET / HTTP/1.1\r\n');
      socket.resetAndDestroy();
    }
    await expectService();
    expect(gateway.program.child.exitCode).toBeNull();
  });
});
