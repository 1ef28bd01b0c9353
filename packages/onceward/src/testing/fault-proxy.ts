import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { DurationMs } from '../engine/units.ts';
import { FaultyPipe } from './faulty-pipe.ts';

/** What happens to the bytes of one direction. */
export type Fault =
  /** Every chunk arrives this much later, in order. */
  | { readonly kind: 'delay'; readonly ms: DurationMs }
  /** `bytes` at a time, `everyMs` apart. */
  | { readonly kind: 'drip'; readonly bytes: number; readonly everyMs: DurationMs }
  /** Nothing arrives until the fault is lifted; then all of it does, as after a frozen peer thaws. */
  | { readonly kind: 'hold' }
  /** Bytes vanish. When the fault is lifted, connections that lost bytes are reset. */
  | { readonly kind: 'blackhole' }
  /** After so many more bytes both sides are reset: a reply cut in the middle. */
  | { readonly kind: 'cut'; readonly afterBytes: number };

export interface Faults {
  readonly toServer?: Fault;
  readonly toClient?: Fault;
}

/** A proxy between a client and a real server, whose faults can be set at any time. */
export interface FaultProxy {
  readonly port: number;
  /** Replaces the faults of all connections, open and to come; `{}` lifts them. */
  set(faults: Faults): void;
  /** Resets every open connection on both sides. */
  reset(): void;
  /** The server's side is reset while the client's stays open and silent, as after a lost route. */
  halfOpen(): void;
  /** `true`: new connections are reset at once. Those that are open stay. */
  refuse(on: boolean): void;
  /** How many client connections are open. */
  readonly connections: number;
  close(): Promise<void>;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  readonly toServer: FaultyPipe;
  readonly toClient: FaultyPipe;
}

/**
 * ```ts
 * const proxy = await startFaultProxy(redisPort);
 * proxy.set({ toClient: { kind: 'cut', afterBytes: 3 } });
 * ```
 */
export async function startFaultProxy(targetPort: number, host = '127.0.0.1'): Promise<FaultProxy> {
  const pairs = new Set<Pair>();
  let faults: Faults = {};
  let refusing = false;

  const listener = createServer((client) => {
    if (refusing) {
      client.on('error', () => {});
      client.resetAndDestroy();
      return;
    }
    const pair = join(client, connect({ port: targetPort, host }));
    pair.toServer.fault = faults.toServer;
    pair.toClient.fault = faults.toClient;
    pairs.add(pair);
    client.once('close', () => pairs.delete(pair));
  });
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject);
    listener.listen(0, '127.0.0.1', resolve);
  });

  return {
    port: (listener.address() as AddressInfo).port,
    set(next) {
      faults = next;
      for (const pair of pairs) {
        pair.toServer.fault = next.toServer;
        pair.toClient.fault = next.toClient;
      }
    },
    reset() {
      for (const pair of pairs) resetBoth(pair);
    },
    halfOpen() {
      for (const pair of pairs) {
        pair.toServer.discard();
        pair.toClient.discard();
        pair.server.removeAllListeners('close');
        pair.server.resetAndDestroy();
      }
    },
    refuse(on) {
      refusing = on;
    },
    get connections() {
      return pairs.size;
    },
    async close() {
      for (const pair of pairs) resetBoth(pair);
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

function join(client: Socket, server: Socket): Pair {
  const cut = () => resetBoth(pair);
  const pair: Pair = {
    client,
    server,
    toServer: new FaultyPipe(client, server, cut),
    toClient: new FaultyPipe(server, client, cut),
  };
  for (const socket of [client, server]) {
    socket.setNoDelay(true);
    // A reset on one side is passed on by the close handlers below.
    socket.on('error', () => {});
  }
  server.once('close', (failed) => (failed ? client.resetAndDestroy() : client.destroySoon()));
  client.once('close', (failed) => (failed ? server.resetAndDestroy() : server.destroySoon()));
  return pair;
}

function resetBoth(pair: Pair): void {
  pair.toServer.discard();
  pair.toClient.discard();
  pair.client.resetAndDestroy();
  pair.server.resetAndDestroy();
}
