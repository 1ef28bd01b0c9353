import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { accepts } from './loopback-port.ts';
import { startRedis } from './redis.ts';

const LOADER = new URL('../typescript.mjs', import.meta.url).href;

function isRunning(pid: number): boolean {
  try {
    // A process that has ended but was not collected is still listed, as a zombie.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

it('a server ends and its folder goes when the process that started it is killed', async () => {
  const child = fork(new URL('./orphaned-redis.ts', import.meta.url), {
    execArgv: ['--import', LOADER],
  });
  const [server] = (await once(child, 'message')) as [{ pid: number; folder: string }];
  expect(isRunning(server.pid)).toBe(true);
  expect(existsSync(server.folder)).toBe(true);
  child.kill('SIGKILL');
  await expect.poll(() => isRunning(server.pid), { timeout: 20_000 }).toBe(false);
  await expect.poll(() => existsSync(server.folder), { timeout: 20_000 }).toBe(false);
});

it('a server can be frozen, killed and started again on the same port and data', async () => {
  const redis = await startRedis();
  const { pid, port } = redis;
  redis.pause();
  expect(readFileSync(`/proc/${pid}/stat`, 'utf8')).toMatch(/\) T /);
  redis.resume();
  await redis.kill();
  expect(await accepts(port)).toBe(false);
  await redis.start();
  expect(redis.pid).not.toBe(pid);
  expect(await accepts(port)).toBe(true);
  await redis.dispose();
  expect(await accepts(port)).toBe(false);
});
