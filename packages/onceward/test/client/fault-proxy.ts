import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A way to a server on which requests and answers get lost. */
export interface FaultProxy {
  readonly url: string;
  /** Where it leads; may be changed while it runs, as when a server comes back on another port. */
  target: string;
  /** The share of connections on which the request never arrives. */
  loseRequests: number;
  /** The share of answers that are cut off before their first byte. */
  loseAnswers: number;
  /** How many of each were lost. */
  readonly lost: { requests: number; answers: number };
  close(): Promise<void>;
}

export async function startFaultProxy(target: string): Promise<FaultProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const { hostname, port } = new URL(proxy.target);
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      socket.on('error', () => end());
    }
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    client.on('data', (chunk) => {
      if (Math.random() < proxy.loseRequests) {
        proxy.lost.requests += 1;
        end();
      } else upstream.write(chunk);
    });
    upstream.on('data', (chunk) => {
      if (Math.random() < proxy.loseAnswers) {
        proxy.lost.answers += 1;
        end();
      } else client.write(chunk);
    });
    client.on('close', end);
    upstream.on('close', end);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: FaultProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target,
    loseRequests: 0,
    loseAnswers: 0,
    lost: { requests: 0, answers: 0 },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
  return proxy;
}
