import { randomInt } from 'node:crypto';
import { connect, createServer } from 'node:net';

/** Below those that a system gives to outgoing connections: one of them would now and then take a port just found. */
const FIRST_PORT = 20_000;
const PORTS = 12_000;
const TRIES = 100;

/** Its user may not listen there yet. */
const given = new Set<number>();

/** A port that nobody listened on a moment ago, and that this process has not given to anybody before. */
export async function freePort(): Promise<number> {
  for (let left = TRIES; left > 0; left--) {
    const port = FIRST_PORT + randomInt(PORTS);
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error(`of ${TRIES} ports from ${FIRST_PORT} on, none was free`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Whether something accepts connections there. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}
