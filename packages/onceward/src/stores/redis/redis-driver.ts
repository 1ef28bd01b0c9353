import { invalidConfig } from '../invalid-config.ts';

/** The slice of `@redis/client` 5 (or `redis` 5) that the store needs. */
export interface NodeRedisClient {
  readonly options?: { readonly socket?: object } | undefined;
  duplicate(overrides?: object): NodeRedisClient;
  connect(): Promise<unknown>;
  sendCommand(args: readonly (string | Buffer)[], options?: object): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  destroy(): void;
}

/** The slice of `ioredis` 4 or later that the store needs. */
export interface IoRedisClient {
  readonly status: string;
  duplicate(overrides?: object): IoRedisClient;
  connect(): Promise<unknown>;
  callBuffer(command: string, ...args: (string | Buffer)[]): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  disconnect(): void;
}

/** The slice of a cluster of `@redis/client`. */
export interface NodeRedisCluster {
  readonly isOpen: boolean;
  readonly masters: readonly NodeRedisMaster[];
  connect(): Promise<unknown>;
  // A method, so that a driver's narrower parameter is accepted.
  nodeClient(node: NodeRedisMaster): Promise<NodeRedisClient> | NodeRedisClient;
  destroy(): void;
}

export interface NodeRedisMaster {
  readonly host: string;
  readonly port: number;
}

/** The slice of a `Cluster` of `ioredis`. */
export interface IoRedisCluster {
  readonly isCluster: boolean;
  readonly status: string;
  connect(): Promise<unknown>;
  nodes(role: 'master'): readonly IoRedisNode[];
  once(event: string, listener: (...args: unknown[]) => void): unknown;
}

interface IoRedisNode extends IoRedisClient {
  readonly options: { readonly host?: string | undefined; readonly port?: number | undefined };
}

export type RedisClient = NodeRedisClient | IoRedisClient | NodeRedisCluster | IoRedisCluster;

export interface Address {
  readonly host: string;
  readonly port: number;
}

export type Argument = string | Buffer;

/** Its name, then its arguments. */
export type Command = readonly [string, ...Argument[]];

/** A reply with strings as bytes. Among several replies, an error is one that was refused. */
export type Reply = Buffer | number | null | Error | readonly Reply[];

/**
 * One connection to Redis, whatever the driver. It never queues while it is not connected and never sends a command
 * again: what it could not do, it says at once.
 */
export interface RedisConnection {
  send(command: Command): Promise<Reply>;
  subscribe(channel: string): Promise<void>;
  unsubscribe(channel: string): Promise<void>;
  close(): void;
}

export interface ConnectionEvents {
  /** The connection is gone for good. */
  closed(): void;
  message(channel: string): void;
}

export type OpenConnection = (events: ConnectionEvents) => Promise<RedisConnection>;

/** What a client is a pattern for: connections like its own, and, for a cluster, to any of the nodes. */
export interface ConnectionPattern {
  /** Where a cluster's nodes were when we asked; `null` for a client of one server. */
  readonly nodes: readonly Address[] | null;
  /** The one server, where it may turn out to be a node of a cluster of which it knows the others. */
  readonly seed?: Address;
  openTo(address: Address | null): OpenConnection;
}

/** Connections have the settings of the client that was given, but with its queues and retries turned off. */
export async function connectionPattern(
  client: RedisClient,
  connectTimeoutMs: number,
): Promise<ConnectionPattern> {
  if ('masters' in client) return patternOfNodeCluster(client, connectTimeoutMs);
  if ('nodes' in client) return patternOfIoCluster(client, connectTimeoutMs);
  if (typeof client.duplicate !== 'function' || !('callBuffer' in client || 'destroy' in client)) {
    throw invalidConfig(
      'client is none of @redis/client or redis, version 5 or later, or ioredis, version 4 or later',
    );
  }
  return { nodes: null, openTo: opener(client, connectTimeoutMs) };
}

function opener(client: NodeRedisClient | IoRedisClient, timeoutMs: number) {
  return (address: Address | null): OpenConnection =>
    'callBuffer' in client
      ? (events) => openIoRedis(client, address, timeoutMs, events)
      : (events) => openNodeRedis(client, address, timeoutMs, events);
}

async function patternOfNodeCluster(
  cluster: NodeRedisCluster,
  timeoutMs: number,
): Promise<ConnectionPattern> {
  const opened = !cluster.isOpen;
  if (opened) await within(timeoutMs, cluster.connect(), () => cluster.destroy());
  const nodes = cluster.masters.map(({ host, port }) => ({ host, port }));
  const like = await cluster.nodeClient(cluster.masters[0] as NodeRedisMaster);
  const pattern = { nodes, openTo: opener(like, timeoutMs) };
  if (opened) cluster.destroy();
  return pattern;
}

async function patternOfIoCluster(
  cluster: IoRedisCluster,
  timeoutMs: number,
): Promise<ConnectionPattern> {
  if (cluster.status === 'wait') await within(timeoutMs, cluster.connect(), () => {});
  else if (cluster.status !== 'ready') {
    const ready = new Promise((resolve) => cluster.once('ready', resolve));
    await within(timeoutMs, ready, () => {});
  }
  const masters = cluster.nodes('master');
  const nodes = masters.map(({ options: { host = '127.0.0.1', port = 6_379 } }) => ({
    host,
    port,
  }));
  return { nodes, openTo: opener(masters[0] as IoRedisNode, timeoutMs) };
}

/** Blob and simple strings as bytes, by their tags in the protocol. */
const AS_BYTES = { typeMapping: { 36: Buffer, 43: Buffer } };

async function openNodeRedis(
  like: NodeRedisClient,
  address: Address | null,
  connectTimeout: number,
  events: ConnectionEvents,
): Promise<RedisConnection> {
  const client = like.duplicate({
    disableOfflineQueue: true,
    socket: { ...like.options?.socket, ...address, reconnectStrategy: false, connectTimeout },
  });
  // Errors also reject the calls they concern; without a listener they would end the process.
  client.on('error', () => events.closed());
  client.on('end', () => events.closed());
  const close = () => {
    try {
      client.destroy();
    } catch {
      // It is closed already.
    }
  };
  await within(connectTimeout, client.connect(), close);
  // The driver takes a listener that was added while it leaves a channel for one that is leaving.
  const leaving = new Map<string, Promise<unknown>>();
  return {
    send: (command) => client.sendCommand(command, AS_BYTES) as Promise<Reply>,
    async subscribe(channel) {
      await leaving.get(channel);
      await client.subscribe(channel, () => events.message(channel));
    },
    async unsubscribe(channel) {
      const left = client.unsubscribe(channel).finally(() => leaving.delete(channel));
      leaving.set(channel, left);
      await left;
    },
    close,
  };
}

async function openIoRedis(
  like: IoRedisClient,
  address: Address | null,
  connectTimeout: number,
  events: ConnectionEvents,
): Promise<RedisConnection> {
  const client = like.duplicate({
    ...address,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    enableAutoPipelining: false,
    keyPrefix: '',
    stringNumbers: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout,
  });
  client.on('error', () => {});
  client.on('end', () => events.closed());
  client.on('message', (channel) => events.message(String(channel)));
  await within(connectTimeout, client.connect(), () => client.disconnect());
  return {
    send: (command) => client.callBuffer(...command) as Promise<Reply>,
    async subscribe(channel) {
      await client.subscribe(channel);
    },
    async unsubscribe(channel) {
      await client.unsubscribe(channel);
    },
    close: () => client.disconnect(),
  };
}

/** Drivers bound the time to connect, but not the greeting that follows; a silent server would hold it for ever. */
export async function within(
  ms: number,
  connecting: Promise<unknown>,
  abandon: () => void,
  hint = '',
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no greeting within ${ms} ms${hint}`)), ms);
  });
  try {
    await Promise.race([connecting, tooLate]);
  } catch (error) {
    abandon();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
