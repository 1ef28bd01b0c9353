import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../../scripts/services/index.ts';
import { openRedisStore } from './index.ts';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.dispose());

/** Sends every command on, as twemproxy does, and says for itself what became of the answers. */
async function startRewritingProxy(port: number) {
  let said: string | null = null;
  const sockets = new Set<Socket>();
  const listener = createServer((client) => {
    const upstream = connect({ port, host: '127.0.0.1' });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
    }
    client.on('data', (bytes) => upstream.write(bytes));
    upstream.on('data', (bytes) => client.write(said ?? bytes));
    upstream.on('close', () => client.destroy());
    client.on('close', () => upstream.destroy());
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return {
    port: (listener.address() as AddressInfo).port,
    say(text: string | null) {
      said = text;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      listener.close();
    },
  };
}

it.each(['ERR Connection timed out', 'ERR Server closed connection', 'ERR backend conn reset'])(
  '[E12] a proxy that says "%s" of a command it has sent on leaves the write unknown',
  async (words) => {
    const proxy = await startRewritingProxy(server.port);
    const store = await openRedisStore({
      url: `redis://127.0.0.1:${proxy.port}`,
      timeoutMs: 1_000,
    });
    const record = { bytes: Buffer.from('a record'), state: 'pending', dueAt: null } as const;
    await store.swap({ scope: 'proxy', key: `${words} before` }, null, record);
    const id = { scope: 'proxy', key: words };
    proxy.say(`-${words}\r\n`);
    const refusal = store.swap(id, null, record);
    await expect(refusal).rejects.toMatchObject({ applied: 'unknown' });
    proxy.say(null);
    expect(await store.read(id)).not.toBeNull();
    await store.close();
    proxy.close();
  },
);
