import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { build } from 'esbuild';
import { afterAll, describe, expect, it } from 'vitest';
import { locateRuntime } from './other-runtimes.ts';
import { PackedPackages } from './packed-packages.ts';
import { codeOfPage } from './start-page.ts';

const workerd = await locateRuntime('workerd');

const configOf = (port: number) => `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .page)],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]
);
const page :Workerd.Worker = (
  modules = [(name = "main", esModule = embed "worker.mjs")],
  compatibilityDate = "2026-06-01",
  compatibilityFlags = ["nodejs_compat"],
);
`;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** What wrangler does: everything in one module but what the runtime has itself. */
async function bundleWorker(project: string): Promise<void> {
  const code = codeOfPage('hono.md').at(-1)?.code ?? '';
  await writeFile(join(project, 'page.ts'), code);
  await build({
    entryPoints: [join(project, 'page.ts')],
    outfile: join(project, 'worker.mjs'),
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    conditions: ['workerd', 'worker'],
    external: ['node:*'],
  });
}

async function whenUp(send: () => Promise<Response>): Promise<Response> {
  for (let tries = 0; tries < 400; tries += 1) {
    const response = await send().catch(() => null);
    if (response !== null) return response;
    await sleep(50);
  }
  throw new Error('workerd does not answer');
}

describe('in workerd', () => {
  if (workerd === null) {
    // The page is about this runtime and no other.
    it.skip('skipped: npm brings no binary of it to this machine');
    return;
  }
  let packed: PackedPackages;
  afterAll(() => packed?.dispose());

  it('[H14] the worker of the page of Hono runs once for ten at a time', async () => {
    packed = await PackedPackages.make('onceward');
    const project = await packed.project(['onceward'], ['hono']);
    await bundleWorker(project);
    const port = await freePort();
    await writeFile(join(project, 'config.capnp'), configOf(port));
    const child = spawn(workerd, ['serve', 'config.capnp'], { cwd: project, stdio: 'inherit' });
    const ended = once(child, 'exit');
    try {
      const place = () =>
        fetch(`http://127.0.0.1:${port}/orders`, {
          method: 'POST',
          headers: { 'idempotency-key': 'order-7f3a' },
        });
      const first = await whenUp(place);
      const retries = await Promise.all(Array.from({ length: 10 }, place));
      expect(first.status).toBe(201);
      expect(await first.json()).toEqual({ order: 1 });
      for (const retry of retries) {
        expect(retry.headers.get('idempotency-replayed')).toBe('true');
        expect(await retry.json()).toEqual({ order: 1 });
      }
    } finally {
      child.kill('SIGTERM');
      await ended;
    }
  });
});
