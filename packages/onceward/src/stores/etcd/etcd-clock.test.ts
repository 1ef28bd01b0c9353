import { createServer } from 'node:http';
import { type AddressInfo, createServer as createSilent, type Server } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { etcdTime } from './etcd-clock.ts';

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const sockets = new Set<{ destroy(): unknown }>();
  server.on('connection', (socket) => sockets.add(socket));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A port that speaks HTTP as etcd does, and says that it is so late. */
function member(aheadMs: number): Promise<string> {
  const server = createServer((_request, response) => {
    response.setHeader('date', new Date(Date.now() + aheadMs).toUTCString());
    response.end('{}');
  });
  return listening(server);
}

/** Takes connections and says nothing, as a member whose machine hangs. */
const silent = () => listening(createSilent());

it('[E12] the time of etcd is that of the member furthest behind, and a silent one is not waited for', async () => {
  const endpoints = [await silent(), await member(60_000), await member(-60_000)];
  const began = performance.now();
  const read = await etcdTime(endpoints, 5_000);
  expect(performance.now() - began).toBeLessThan(1_000);
  expect(read! - Date.now()).toBeGreaterThan(-62_000);
  expect(read! - Date.now()).toBeLessThan(-58_000);
});

it('the time of etcd is unknown where all its members are silent, which is bounded', async () => {
  await expect(etcdTime([await silent()], 100)).rejects.toThrow('it took too long');
});
