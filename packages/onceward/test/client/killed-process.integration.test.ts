import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OrdersServer, startOrdersServer } from './orders-server.ts';

const KILLS = Number(process.env.ONCEWARD_OUTBOX_KILLS ?? 40);

let folder: string;
let program: string;
let server: OrdersServer;
const children = new Set<ChildProcess>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'onceward-killed-'));
  program = join(folder, 'outbox-process.mjs');
  await build({
    entryPoints: [new URL('outbox-process.ts', import.meta.url).pathname],
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: program,
  });
  server = await startOrdersServer();
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

function startLife(batches: readonly string[], directory = join(folder, 'outbox')) {
  const child = spawn(process.execPath, [program, directory, server.url, ...batches], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.add(child);
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  const ended = once(child, 'close').then(() => children.delete(child));
  return { child, ended, output: () => output };
}

describe('an application that is killed again and again', () => {
  it(
    `[C4] [C11] kill -9 at ${KILLS} random moments leaves one effect each, and groups whole`,
    async () => {
      server.behave({ lossRate: 0.2, delayMs: 5 });
      const batches: string[] = [];
      for (let kill = 0; kill < KILLS; kill += 1) {
        batches.push(`batch${kill}`);
        const life = startLife(batches.slice(-3));
        // Short lives die while they open the log, long ones while they send or after.
        await Promise.race([sleep(40 + Math.random() * 260), life.ended]);
        life.child.kill('SIGKILL');
        await life.ended;
      }
      server.behave();
      for (let at = 0; at < batches.length; at += 100) {
        const last = startLife(batches.slice(at, at + 100));
        await last.ended;
        const [states = ''] = last.output().trim().split('\n').slice(-1);
        expect(new Set(JSON.parse(states))).toEqual(new Set(['done', 'failed']));
      }
      const expected = batches.flatMap((batch) =>
        ['a', 'b', 'c', 'step', 'undo'].map((name) => [`${batch}-${name}`, 1]),
      );
      expect(Object.fromEntries(server.effects())).toEqual(Object.fromEntries(expected));
    },
    60_000 + KILLS * 2_000,
  );

  it('[C9] a second process waits for the first, and takes over when that is killed', async () => {
    server.behave({ status: 503 });
    const directory = join(folder, 'shared');
    const first = startLife(['first'], directory);
    while (!first.output().includes('queued')) await sleep(10);
    const second = startLife(['first', 'second'], directory);
    await sleep(700);
    expect(second.output()).toBe('');
    first.child.kill('SIGKILL');
    await first.ended;
    server.behave();
    await second.ended;
    expect(second.output()).toContain('queued');
    expect(server.effects().get('first-a')).toBe(1);
    expect(server.effects().get('second-a')).toBe(1);
  });
});
