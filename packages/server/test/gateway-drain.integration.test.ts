import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningGateway, startGateway } from './running-gateway.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
let url: string;
beforeAll(async () => {
  url = await upstream.listen();
});
afterAll(() => upstream.close());

const start = (drainSeconds: string) =>
  startGateway(['--upstream', url], { ONCEWARD_DRAIN_SECONDS: drainSeconds });

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !condition(); tries += 1) await sleep(25);
  expect(condition()).toBe(true);
}

/** Stops it, and gives the exit code and how long that took. */
async function stopTimed(gateway: RunningGateway) {
  const began = performance.now();
  const { code } = await gateway.stop();
  return { code, ms: performance.now() - began };
}

describe('[H15] a gateway that is asked to stop', () => {
  it('ends by its deadline though clients read nothing of their answers', async () => {
    const gateway = await start('1');
    for (const keyed of [false, true]) {
      for (let client = 0; client < 20; client += 1) {
        const { socket } = await gateway.open();
        socket.pause();
        for (let index = 0; index < 10; index += 1) {
          const key = keyed ? `Idempotency-Key: unread-${client}-${index}\r\n` : '';
          const framing = 'Content-Length: 2\r\n\r\n{}';
          const path = index % 2 === 0 ? '/large' : '/sized?bytes=1000000';
          socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${key}${framing}`);
        }
      }
    }
    await sleep(700);
    const { code, ms } = await stopTimed(gateway);
    expect(code).toBe(9);
    expect(ms).toBeLessThan(6_000);
  }, 60_000);

  it('lets a request finish that had waited for leave to send its body', async () => {
    const gateway = await start('10');
    const { socket, text } = await gateway.open();
    const head = 'POST /leave?delay=800 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n';
    socket.write(`${head}Idempotency-Key: leave-1\r\nExpect: 100-continue\r\n\r\n`);
    await until(() => text().startsWith('HTTP/1.1 100'));
    socket.write('{}');
    await sleep(200);
    const stopped = stopTimed(gateway);
    await until(() => socket.destroyed || text().includes('"bytes":2'));
    expect(text()).toMatch(/HTTP\/1\.1 201 [\s\S]*"bytes":2/);
    expect(await stopped).toMatchObject({ code: 0 });
  }, 60_000);

  it('lets pipelined requests finish', async () => {
    const gateway = await start('10');
    const { socket, text } = await gateway.open();
    const one = (index: number) =>
      `POST /piped?delay=300 HTTP/1.1\r\nHost: a\r\nIdempotency-Key: piped-${index}\r\nContent-Length: 2\r\n\r\n{}`;
    socket.write([1, 2, 3].map(one).join(''));
    await sleep(100);
    const stopped = stopTimed(gateway);
    await until(() => socket.destroyed);
    expect(text().match(/HTTP\/1\.1 201 /g)).toHaveLength(3);
    expect(await stopped).toMatchObject({ code: 0 });
  }, 60_000);

  it('waits for an upgraded connection, and cuts it at its deadline', async () => {
    const gateway = await start('1');
    const { socket, text } = await gateway.open();
    socket.write('GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
    await until(() => text().includes('hello'));
    const stopped = stopTimed(gateway);
    await sleep(300);
    socket.write('still here');
    await until(() => text().includes('still here'));
    const { code, ms } = await stopped;
    expect(code).toBe(9);
    expect(ms).toBeLessThan(6_000);
  }, 60_000);
});
