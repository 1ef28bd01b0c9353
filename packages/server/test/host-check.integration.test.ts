import { once } from 'node:events';
import { connect } from 'node:http2';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newKey } from './job-client.ts';
import { askPlainly, type PlainRequest } from './plain-request.ts';
import {
  ADMIN,
  CREDENTIAL,
  RunningProgram,
  startServer,
  temporaryFolder,
} from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

type Server = Awaited<ReturnType<typeof startServer>>;
type Headers = Readonly<Record<string, string>>;

const job = (headers: Headers = {}): PlainRequest => ({
  method: 'POST',
  headers: { 'idempotency-key': newKey(), ...headers },
  json: { type: 'echo', payload: 1 },
});
const order = (headers: Headers = {}): PlainRequest => ({
  method: 'POST',
  headers,
  json: { item: 'a', amount: 1 },
});

const FORWARDED: readonly Headers[] = [
  { forwarded: 'for=192.0.2.1' },
  { 'x-forwarded-for': '192.0.2.1' },
  { 'x-forwarded-proto': 'https' },
  { 'x-forwarded-host': 'shop.example' },
  { 'x-real-ip': '192.0.2.1' },
  { via: '1.1 proxy' },
];

const FROM_OTHER_SITES: readonly Headers[] = [
  { origin: 'http://evil.example' },
  { origin: 'null' },
  { origin: 'http://localhost:1' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
];

describe('a server on loopback', () => {
  let server: Server;
  let url: string;
  let port: string;
  beforeAll(async () => {
    server = await startServer();
    url = server.url;
    port = new URL(url).port;
  });
  afterAll(() => server.stop());

  it.each([
    'evil.example',
    'evil.example:8080',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '192.0.2.1',
    '127.0.0.1@evil.example',
    'localhost:80:80',
  ])('a request for %s gets 421, with a credential too, and the setting is named', async (host) => {
    const asked = [
      ['/jobs', job({ host })],
      ['/jobs', job({ host, ...ADMIN })],
      ['/jobs', { headers: { host } }],
      ['/demo/v1/orders', order({ host })],
      ['/demo/v1/effects', { headers: { host } }],
      ['/admin/stats', { headers: { host, ...ADMIN } }],
      ['/recovery', { headers: { host, ...ADMIN } }],
      ['/healthz', { headers: { host } }],
      ['/nothing', { headers: { host } }],
    ] as const;
    for (const [path, request] of asked) {
      const { status, body } = await askPlainly(url + path, request);
      expect([path, status]).toEqual([path, 421]);
      expect(JSON.stringify(body)).toContain('ONCEWARD_ALLOWED_HOSTS');
    }
  });

  it('the names of loopback are right, with any port', async () => {
    for (const host of ['localhost', 'LOCALHOST:1', 'localhost.', `127.0.0.1:${port}`, '[::1]:9']) {
      expect((await askPlainly(`${url}/jobs`, job({ host }))).status).toBe(202);
      expect((await askPlainly(`${url}/demo/v1/orders`, order({ host }))).status).toBe(201);
    }
  });

  it.each(FORWARDED)('[E9] a caller whom a proxy speaks for (%j) is not local', async (headers) => {
    const refused = await askPlainly(`${url}/jobs`, job(headers));
    expect(refused.status).toBe(401);
    expect(refused.body.detail).toContain('ONCEWARD_LOCAL_ACCESS');
    expect((await askPlainly(`${url}/jobs`, { headers })).status).toBe(401);
    expect((await askPlainly(`${url}/jobs`, job({ ...headers, ...ADMIN }))).status).toBe(202);
    const demo = await askPlainly(`${url}/demo/v1/orders`, order(headers));
    expect(demo.status).toBe(403);
    expect(demo.body.detail).toContain('ONCEWARD_LOCAL_ACCESS');
  });

  it.each(FROM_OTHER_SITES)('a page of another site (%j) is not local', async (headers) => {
    expect((await askPlainly(`${url}/jobs`, job(headers))).status).toBe(401);
    expect((await askPlainly(`${url}/jobs`, { headers })).status).toBe(401);
    expect((await askPlainly(`${url}/demo/v1/orders`, order(headers))).status).toBe(403);
    expect((await askPlainly(`${url}/demo/v1/effects`, { headers })).status).toBe(403);
  });

  it('a page of this server is local', async () => {
    for (const headers of [{ origin: url }, { 'sec-fetch-site': 'same-origin', origin: url }]) {
      expect((await askPlainly(`${url}/jobs`, job(headers))).status).toBe(202);
      expect((await askPlainly(`${url}/demo/v1/orders`, order(headers))).status).toBe(201);
    }
  });

  it('the gRPC port refuses names that are not its own', async () => {
    const [, address = ''] = await server.program.printed(/^onceward serves gRPC on (\S+)$/m);
    const session = connect(address);
    try {
      const statusFor = async (authority: string) => {
        const stream = session.request({
          ':method': 'POST',
          ':path': '/onceward.ledger.v1.ReadService/GetTip',
          ':authority': authority,
          'content-type': 'application/grpc',
        });
        stream.end();
        const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
        stream.close();
        return headers[':status'];
      };
      expect(await statusFor('evil.example')).toBe(421);
      expect(await statusFor('localhost:1')).toBe(200);
    } finally {
      session.destroy();
    }
  });
});

describe('a server with a name', () => {
  it('[E9] is reached under it with a credential, and never without one', async () => {
    const server = await startServer({ ONCEWARD_ALLOWED_HOSTS: 'Jobs.Example, other.example' });
    const { url } = server;
    const host = 'jobs.example:443';
    expect((await askPlainly(`${url}/jobs`, job({ host }))).status).toBe(401);
    expect((await askPlainly(`${url}/demo/v1/orders`, order({ host }))).status).toBe(403);
    expect((await askPlainly(`${url}/jobs`, job({ host, ...ADMIN }))).status).toBe(202);
    expect((await askPlainly(`${url}/jobs`, job({ host: 'third.example' }))).status).toBe(421);
    expect((await askPlainly(`${url}/jobs`, job())).status).toBe(202);
    await server.stop();
  });

  it('wants a credential from everybody where local access is off', async () => {
    const server = await startServer({ ONCEWARD_LOCAL_ACCESS: 'false' });
    const { url } = server;
    expect((await askPlainly(`${url}/jobs`, job())).status).toBe(401);
    expect((await askPlainly(`${url}/demo/v1/effects`)).status).toBe(403);
    expect((await askPlainly(`${url}/jobs`, job(ADMIN))).status).toBe(202);
    await server.stop();
  });
});

describe('a gateway', () => {
  it('checks the host on its admin port, and leaves that of the API to the API', async () => {
    const upstream = new UpstreamServer();
    const folder = temporaryFolder();
    const gateway = new RunningProgram(['gateway', '--upstream', await upstream.listen()], {
      PORT: '0',
      ONCEWARD_ADMIN_PORT: '0',
      ONCEWARD_DATA: folder.path,
      ONCEWARD_LOG_LEVEL: 'warn',
      ...CREDENTIAL,
    });
    try {
      const url = await gateway.ready();
      const [, admin = ''] = await gateway.printed(/^onceward admin is on (\S+)$/m);
      const headers = { host: 'evil.example', ...ADMIN };
      expect((await askPlainly(`${admin}/admin/stats`, { headers })).status).toBe(421);
      expect((await askPlainly(`${admin}/admin/stats`, { headers: ADMIN })).status).toBe(200);
      expect((await askPlainly(`${url}/anything`, { headers })).status).not.toBe(421);
    } finally {
      await gateway.stop();
      await upstream.close();
      folder.remove();
    }
  });
});
