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

/** The slice of `ioredis` 5 or later that the store needs. */
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

export type RedisClient = NodeRedisClient | IoRedisClient;

/** A reply with strings as bytes. Among several replies, an error is one that was refused. */
export type Reply = Buffer | number | null | Error | readonly Reply[];

/**
 * One connection to Redis, whatever the driver. It never queues while it is not connected and never sends a command
 * again: what it could not do, it says at once.
 */
export interface RedisConnection {
  send(command: string, ...args: (string | Buffer)[]): Promise<Reply>;
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

/** Connections like the one of the client that was given, but with the queues and retries turned off. */
export function connectionsLike(client: RedisClient, connectTimeoutMs: number): OpenConnection {
  return 'callBuffer' in client
    ? (events) => openIoRedis(client, connectTimeoutMs, events)
    : (events) => openNodeRedis(client, connectTimeoutMs, events);
}

/** Blob and simple strings as bytes, by their tags in the protocol. */
const AS_BYTES = { typeMapping: { 36: Buffer, 43: Buffer } };

async function openNodeRedis(
  like: NodeRedisClient,
  connectTimeout: number,
  events: ConnectionEvents,
): Promise<RedisConnection> {
  const client = like.duplicate({
    disableOfflineQueue: true,
    socket: { ...like.options?.socket, reconnectStrategy: false, connectTimeout },
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
    send: (command, ...args) => client.sendCommand([command, ...args], AS_BYTES) as Promise<Reply>,
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
  connectTimeout: number,
  events: ConnectionEvents,
): Promise<RedisConnection> {
  const client = like.duplicate({
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout,
  });
  client.on('error', () => {});
  client.on('end', () => events.closed());
  client.on('message', (channel) => events.message(String(channel)));
  await within(connectTimeout, client.connect(), () => client.disconnect());
  return {
    send: (command, ...args) => client.callBuffer(command, ...args) as Promise<Reply>,
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
async function within(
  ms: number,
  connecting: Promise<unknown>,
  abandon: () => void,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no greeting within ${ms} ms`)), ms);
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
