import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../scripts/services/index.ts';

const SERVER = fileURLToPath(new URL('./order-server.ts', import.meta.url));
const TYPESCRIPT = fileURLToPath(new URL('../../../../scripts/typescript.mjs', import.meta.url));

let redis: RedisServer;
let keys = 0;
const servers: OrderServer[] = [];

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.dispose());
afterEach(async () => {
  await Promise.all(servers.splice(0).map(({ stop }) => stop('SIGKILL')));
});

interface OrderServer {
  readonly child: ChildProcess;
  readonly runs: () => number;
  send(key: string): Promise<{ status: number; text: string }>;
  stop(signal: NodeJS.Signals): Promise<void>;
}

async function start(name: string, onLapse: string, leaseMs: number): Promise<OrderServer> {
  const child = fork(SERVER, [redis.url, name, onLapse, String(leaseMs)], {
    execArgv: ['--conditions=onceward-source', '--import', TYPESCRIPT],
  });
  const [url] = (await once(child, 'message')) as [string];
  let runs = 0;
  child.on('message', () => {
    runs += 1;
  });
  const server: OrderServer = {
    child,
    runs: () => runs,
    async send(key) {
      const headers = { 'idempotency-key': key };
      const response = await fetch(`${url}/orders`, { method: 'POST', headers });
      return { status: response.status, text: await response.text() };
    },
    async stop(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    },
  };
  servers.push(server);
  return server;
}

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 2_000 && !holds(); tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect(holds()).toBe(true);
}

it('[E1] [H7] 50 at once at two processes are one run, and all get the same answer', async () => {
  const [here, there] = [
    await start('here', 'in_doubt', 60_000),
    await start('there', 'in_doubt', 60_000),
  ];
  const key = `key-${keys++}`;
  const sent = Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? here : there).send(key));
  await until(() => here.runs() + there.runs() > 0);
  here.child.send('go');
  there.child.send('go');
  const replies = await Promise.all(sent);
  expect(here.runs() + there.runs()).toBe(1);
  expect(new Set(replies.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  expect(replies[0]?.status).toBe(200);
});

it('[E6] a process killed in its handler leaves the key in doubt, and nobody runs it again', async () => {
  const [first, second] = [
    await start('first', 'in_doubt', 500),
    await start('second', 'in_doubt', 500),
  ];
  const key = `key-${keys++}`;
  const lost = first.send(key).catch(() => 'lost');
  await until(() => first.runs() === 1);
  await first.stop('SIGKILL');
  expect(await lost).toBe('lost');
  const reply = await second.send(key);
  expect(reply.status).toBe(409);
  expect(reply.text).toContain('/outcome-unknown');
  expect(second.runs()).toBe(0);
});

it('[E6] where a lost attempt may be repeated, the next process takes it over', async () => {
  const [first, second] = [
    await start('first', 'take_over', 500),
    await start('second', 'take_over', 500),
  ];
  const key = `key-${keys++}`;
  const lost = first.send(key).catch(() => 'lost');
  await until(() => first.runs() === 1);
  await first.stop('SIGKILL');
  await lost;
  second.child.send('go');
  expect(await second.send(key)).toEqual({ status: 200, text: '{"by":"second"}' });
});

it('[E5] a process frozen past its lease is fenced off: both callers get one answer', async () => {
  const [frozen, other] = [
    await start('frozen', 'take_over', 500),
    await start('other', 'take_over', 500),
  ];
  const key = `key-${keys++}`;
  const first = frozen.send(key);
  await until(() => frozen.runs() === 1);
  frozen.child.kill('SIGSTOP');
  other.child.send('go');
  const second = await other.send(key);
  expect(second.text).toBe('{"by":"other"}');
  frozen.child.kill('SIGCONT');
  frozen.child.send('go');
  expect(await first).toEqual(second);
});
