import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type RunningGateway, startGateway } from './running-gateway.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
let gateway: RunningGateway;
const others: RunningGateway[] = [];
beforeAll(async () => {
  gateway = await startGateway(['--upstream', await upstream.listen()], {
    IDEMPOTENCY_REQUIRE_KEY: 'true',
  });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.close();
});
afterEach(async () => {
  await Promise.all(others.splice(0).map((other) => other.stop()));
});

const UPGRADE = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
/** What Java's HttpClient sends with every request that is not set to HTTP/1.1. */
const JAVA =
  'Connection: Upgrade, HTTP2-Settings\r\nHost: a\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n' +
  'Upgrade: h2c\r\nUser-Agent: Java-http-client/17.0.15\r\n';

async function isAlive(one = gateway): Promise<boolean> {
  return (await fetch(`${one.url}/alive`)).status === 201;
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !condition(); tries += 1) await sleep(25);
  expect(condition()).toBe(true);
}

/** An upstream that sends what it is given, byte by byte. */
async function rawUpstream(
  speak: (socket: Socket) => void,
): Promise<{ url: string; server: Server }> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => speak(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

describe('[H15] a request with Upgrade', () => {
  it('and the target // gets 400, and the gateway goes on', async () => {
    const running = fetch(`${gateway.url}/running?delay=300`);
    for (const target of ['//', '/\\', '///', '//[']) {
      const bytes = `GET ${target} HTTP/1.1\r\nHost: a\r\n${UPGRADE}\r\n`;
      expect((await gateway.ask(bytes)).status).toBe(400);
    }
    expect((await running).status).toBe(201);
    expect(gateway.program.child.exitCode).toBeNull();
  });

  it('never reaches any server but the upstream', async () => {
    let asked = 0;
    const secret = createServer((_request, response) => {
      asked += 1;
      response.end('secret');
    });
    secret.on('upgrade', (_request, socket) => {
      asked += 1;
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\nsecret');
    });
    await new Promise<void>((resolve) => secret.listen(0, '127.0.0.1', resolve));
    const { port } = secret.address() as AddressInfo;
    for (const target of [
      `//127.0.0.1:${port}/secret`,
      `http://127.0.0.1:${port}/secret`,
      `/\\127.0.0.1:${port}/secret`,
      `/@127.0.0.1:${port}/secret`,
    ]) {
      const bytes = `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${UPGRADE}\r\n`;
      const { text } = await gateway.ask(bytes);
      expect(text).not.toContain('secret\r\n');
      expect(text).not.toMatch(/secret$/);
    }
    expect(asked).toBe(0);
    await new Promise((resolve) => secret.close(resolve));
  });

  for (const [what, framing, body] of [
    ['of declared length', 'Content-Length: 7\r\n', '{"a":1}'],
    ['in chunks', 'Transfer-Encoding: chunked\r\n', '7\r\n{"a":1}\r\n0\r\n\r\n'],
  ] as const) {
    for (const [whose, offer] of [
      ['h2c, as Java sends it,', JAVA],
      ['websocket', `Host: a\r\n${UPGRADE}`],
    ] as const) {
      it(`to ${whose} on a keyed POST with a body ${what} runs once, with its body whole`, async () => {
        const path = `/${encodeURIComponent(whose)}-${body.length}`;
        const key = `Idempotency-Key: up-${whose.length}-${body.length}\r\n`;
        const head = `POST ${path} HTTP/1.1\r\n${offer}${framing}`;
        const keyed = `${head}${key}\r\n${body}`;
        const first = await gateway.ask(keyed);
        expect(first.status).toBe(201);
        expect(upstream.last()).toMatchObject({ bytes: 7, url: path });
        expect(upstream.last().headers).not.toHaveProperty('upgrade');
        expect(upstream.last().headers).not.toHaveProperty('http2-settings');
        const second = await gateway.ask(keyed);
        expect(second.text).toMatch(/idempotency-replayed: true/);
        const bare = await gateway.ask(`${head}\r\n${body}`);
        expect([bare.status, bare.text]).toEqual([400, expect.stringContaining('key-missing')]);
        expect(upstream.count(path)).toBe(1);
      });
    }
  }

  it('to h2c on a GET is answered in HTTP/1.1, and the connection serves the next request', async () => {
    const { socket, text } = await gateway.open();
    socket.write(`GET /one HTTP/1.1\r\n${JAVA}\r\n`);
    await until(() => text().includes('"url":"/one"'));
    socket.write('GET /two HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(() => text().includes('"url":"/two"'));
    socket.destroy();
    expect(text()).not.toContain('101');
  });

  it('by curl --http2 runs once, with its body whole', async () => {
    const args = ['-sS', '-i', '--http2', '--max-time', '20', '-d', 'hello', '-H'];
    const call = [...args, 'Idempotency-Key: curl-1', `${gateway.url}/curl`];
    for (const replayed of ['false', 'true']) {
      const { stdout } = await promisify(execFile)('curl', call);
      expect(stdout).toMatch(
        new RegExp(`^HTTP/1.1 201 [\\s\\S]*idempotency-replayed: ${replayed}`),
      );
    }
    expect(upstream.count('/curl')).toBe(1);
    expect(upstream.last().bytes).toBe(5);
  });
});

describe('[H15] an upgraded connection', () => {
  it('whose upstream breaks off half-way ends, without a second head in its body', async () => {
    for (const said of [
      'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf',
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhalf',
    ]) {
      const { url, server } = await rawUpstream((socket) => {
        socket.write(said);
        setTimeout(() => socket.resetAndDestroy(), 200);
      });
      const own = await startGateway(['--upstream', url]);
      others.push(own);
      const { socket, text } = await own.open();
      socket.write(`GET /ws HTTP/1.1\r\nHost: a\r\n${UPGRADE}\r\n`);
      await until(() => socket.destroyed);
      expect(text().match(/HTTP\/1\.1/g)).toHaveLength(1);
      expect(text()).toMatch(/half$/);
      server.close();
    }
  });

  it('gets 504 when the upstream does not answer in time, and 502 when it cannot be reached', async () => {
    const { url, server } = await rawUpstream(() => {});
    const own = await startGateway(['--upstream', url], {
      ONCEWARD_UPGRADE_TIMEOUT_SECONDS: '0.3',
    });
    others.push(own);
    const bytes = `GET /ws HTTP/1.1\r\nHost: a\r\n${UPGRADE}\r\n`;
    const ask = async () => {
      const { socket, text } = await own.open();
      socket.write(bytes);
      await until(() => socket.destroyed || text().includes('}'));
      socket.destroy();
      return text();
    };
    expect(await ask()).toMatch(
      /^HTTP\/1\.1 504 [\s\S]*upstream-timeout[\s\S]*"happened":"unknown"/,
    );
    server.close();
    await sleep(50);
    expect(await ask()).toMatch(/^HTTP\/1\.1 502 [\s\S]*upstream-refused[\s\S]*"happened":"no"/);
    expect(own.program.child.exitCode).toBeNull();
  });

  it('has its own limit, and makes room when it closes', async () => {
    const url = upstream.url;
    const own = await startGateway(['--upstream', url], { ONCEWARD_MAX_UPGRADES: '1' });
    others.push(own);
    const ask = async () => {
      const connection = await own.open();
      connection.socket.write(`GET /ws HTTP/1.1\r\nHost: a\r\n${UPGRADE}\r\n`);
      await until(() => connection.text().includes('\r\n\r\n'));
      return connection;
    };
    const first = await ask();
    expect(first.text()).toMatch(/^HTTP\/1\.1 101 /);
    const second = await ask();
    expect(second.text()).toMatch(/^HTTP\/1\.1 429 [\s\S]*ONCEWARD_MAX_UPGRADES/);
    first.socket.destroy();
    await sleep(200);
    const third = await ask();
    expect(third.text()).toMatch(/^HTTP\/1\.1 101 /);
    third.socket.destroy();
    expect(await isAlive(own)).toBe(true);
  });
});
