import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import {
  ADMIN,
  CREDENTIAL,
  postJson,
  RunningProgram,
  runCommand,
  startServer,
  temporaryFolder,
} from './running-program.ts';

const folders: { remove(): void }[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) folder.remove();
});

function newFolder(): string {
  const folder = temporaryFolder();
  folders.push(folder);
  return folder.path;
}

function order(url: string, key: string, query = ''): Promise<Response> {
  const headers = { 'idempotency-key': key };
  return postJson(`${url}/demo/v1/orders${query}`, { item: 'w', amount: 1 }, headers);
}

describe('[U1] a server that is asked to stop', () => {
  it('lets running requests finish, then ends with 0', async () => {
    const server = await startServer();
    const running = order(server.url, 'k', '?delay_ms=800');
    await sleep(200);
    const ended = server.stop();
    await sleep(100);
    const late = await fetch(`${server.url}/healthz`).catch(() => 'refused');
    expect(late).toBe('refused');
    const answer = await running;
    expect(answer.status).toBe(201);
    await answer.text();
    expect(await ended).toMatchObject({ code: 0, signal: null });
  });

  it('is not held up by connections that carry nothing', async () => {
    const server = await startServer();
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    await sleep(50);
    const before = performance.now();
    expect(await server.stop()).toMatchObject({ code: 0 });
    expect(performance.now() - before).toBeLessThan(10_000);
    socket.destroy();
  });

  it('ends the streams of events', async () => {
    const server = await startServer();
    const events = await fetch(`${server.url}/admin/events`, { headers: ADMIN });
    const read = events.text();
    expect(await server.stop()).toMatchObject({ code: 0 });
    expect(await read).toContain('listening');
  });

  it('ends at once at the second signal', async () => {
    const server = await startServer();
    const lost = order(server.url, 'k', '?delay_ms=30000').catch(() => 'lost');
    await sleep(300);
    server.program.child.kill('SIGTERM');
    await sleep(200);
    expect(await server.stop()).toMatchObject({ code: 143 });
    expect(await lost).toBe('lost');
  });

  it('takes a signal that reaches it twice at once for one', async () => {
    const server = await startServer();
    const running = order(server.url, 'k', '?delay_ms=800');
    await sleep(200);
    server.program.child.kill('SIGTERM');
    const ended = server.stop();
    expect((await running).status).toBe(201);
    expect(await ended).toMatchObject({ code: 0, signal: null });
  });

  it('says so when it could not wait for all of them', async () => {
    const server = await startServer({ ONCEWARD_DRAIN_SECONDS: '0.2' });
    const lost = order(server.url, 'k', '?delay_ms=30000').catch(() => 'lost');
    await sleep(300);
    expect(await server.stop()).toMatchObject({ code: 9 });
    expect(await lost).toBe('lost');
  });

  it('ends on a signal that comes with the very word that it is ready', async () => {
    const server = await startServer();
    expect(await server.stop()).toMatchObject({ code: 0 });
  });
});

describe('[U1] a server that cannot start', () => {
  it('says in one line that the port is in use', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const port = String((other.address() as AddressInfo).port);
    const env = { PORT: port, ONCEWARD_DATA: newFolder(), ONCEWARD_LOG_LEVEL: 'silent' };
    const { code, stdout, stderr } = await runCommand(['serve'], env);
    other.close();
    expect(code).toBe(6);
    // It is stored, so it must have been shown.
    expect(stdout).toContain('ONCEWARD_API_SECRET=sk_');
    expect(stderr.trim().split('\n')).toEqual([expect.stringMatching(`port ${port}.*PORT`)]);
  });

  it('says in one line that another process has the store open', async () => {
    const first = await startServer();
    const env = { PORT: '0', ONCEWARD_DATA: first.data, ...CREDENTIAL };
    const { code, stderr } = await runCommand(['serve'], env);
    expect(code).toBe(7);
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining('ONCEWARD_DATA (--data)')]);
    expect((await fetch(`${first.url}/readyz`)).status).toBe(200);
    await first.stop();
  });

  it('says in one line that the data folder cannot be used', async () => {
    const file = join(newFolder(), 'file');
    writeFileSync(file, '');
    const { code, stderr } = await runCommand(['serve'], { PORT: '0', ONCEWARD_DATA: file });
    expect(code).toBe(8);
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining(`--data) names ${file},`)]);
  });

  it('says which credentials file it cannot understand', async () => {
    const data = newFolder();
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, 'credentials.json'), '{}');
    const { code, stderr } = await runCommand(['serve'], { PORT: '0', ONCEWARD_DATA: data });
    expect(code).toBe(2);
    expect(stderr).toContain('credentials.json');
  });

  it('names every setting that is wrong, and starts nothing', async () => {
    const env = { PORT: '99999', IDEMPOTENCY_MODE: 'maybe', ONCEWARD_DATA: newFolder() };
    const { code, stdout, stderr } = await runCommand(['serve'], env);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^onceward: PORT is "99999"/m);
    expect(stderr).toMatch(/^onceward: IDEMPOTENCY_MODE is "maybe"/m);
  });
});

describe('[U1] a server', () => {
  it('is healthy, ready, and says where it is', async () => {
    const server = await startServer();
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(await (await fetch(`${server.url}/healthz`)).json()).toEqual({
      status: 'ok',
      service: 'onceward',
    });
    expect(await (await fetch(`${server.url}/readyz`)).json()).toEqual({ status: 'ready' });
    await server.stop();
  });

  it('runs without a disk for its records when it is set so', async () => {
    const server = await startServer({ ONCEWARD_STORE: 'memory' });
    const first = await (await order(server.url, 'k')).json();
    expect(await (await order(server.url, 'k')).json()).toEqual(first);
    const stats = await (await fetch(`${server.url}/admin/stats`, { headers: ADMIN })).json();
    expect(stats).toMatchObject({ store: { name: 'memory', durability: 'none' } });
    await server.stop();
  });

  it('can be stopped while it starts', async () => {
    const env = { PORT: '0', ONCEWARD_DATA: newFolder(), ...CREDENTIAL };
    const program = new RunningProgram(['serve'], env);
    await sleep(100);
    const { code, signal } = await program.stop();
    expect(code === 0 || signal === 'SIGTERM').toBe(true);
  });
});

// A file mode keeps nobody out who is root.
describe.skipIf(process.getuid?.() === 0)('[U1] a folder of somebody else', () => {
  it('is named in one line', async () => {
    const data = newFolder();
    chmodSync(data, 0o500);
    const { code, stderr } = await runCommand(['serve'], { PORT: '0', ONCEWARD_DATA: data });
    expect(code).toBe(8);
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining(data)]);
  });
});
