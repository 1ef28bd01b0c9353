import type { ConnectionOptions } from 'node:tls';
import { StoreError } from '../../engine/errors.ts';
import { refuseUnknown } from '../../engine/known-options.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import { type Durability, requireDurability } from '../durability.ts';
import { invalidConfig } from '../invalid-config.ts';
import { Waiters } from '../waiters.ts';
import { proveDurability } from './durability-proof.ts';
import { parseRedisUrl } from './redis-address.ts';
import { RedisCluster } from './redis-cluster.ts';
import {
  type Address,
  type ConnectionPattern,
  connectionPattern,
  type OpenConnection,
  type RedisClient,
} from './redis-driver.ts';
import { RedisLink } from './redis-link.ts';
import { type RedisServers, singleServer } from './redis-servers.ts';
import { RedisStore } from './redis-store.ts';
import { SWAP } from './swap.lua.ts';
import { wirePattern } from './wire/wire-connection.ts';

export type { Durability, StoreFinding } from '../durability.ts';
export type {
  IoRedisClient,
  IoRedisCluster,
  NodeRedisClient,
  NodeRedisCluster,
  RedisClient,
} from './redis-driver.ts';
export type { RedisStore } from './redis-store.ts';

/** Where Redis is. */
export interface RedisAtUrl {
  /**
   * `redis://user:password@host:port/database`, or `rediss://` for TLS. One node of a cluster is enough. No driver is
   * needed, and less time is spent in this process than with one.
   */
  readonly url: string;
  /** For `rediss://`: authorities, certificates and whatever else `tls.connect` takes. */
  readonly tls?: ConnectionOptions;
  readonly client?: undefined;
}

/** Redis as a driver reaches it: through its sentinels, with its credentials, by its cluster's nodes. */
export interface RedisOfClient {
  /**
   * A client of `@redis/client`, `redis` or `ioredis`, for one server or for a cluster. The store opens connections of
   * its own with the same settings, because it must not share a queue that sends commands after their callers have
   * left.
   */
  readonly client: RedisClient;
  readonly url?: undefined;
  readonly tls?: undefined;
}

export type RedisStoreOptions = (RedisAtUrl | RedisOfClient) & RedisStoreSettings;

export interface RedisStoreSettings {
  /** What every key begins with. */
  readonly prefix?: string;
  /** How long a call may take, at most half a minute. */
  readonly timeoutMs?: DurationMs;
  /** Wakes waiters in other processes by pub/sub, over a second connection. */
  readonly notifications?: boolean;
  /** Refuses to open unless the server's settings prove at least this. */
  readonly durability?: Durability;
}

const KNOWN = {
  url: true,
  tls: true,
  client: true,
  prefix: true,
  timeoutMs: true,
  notifications: true,
  durability: true,
} satisfies Record<keyof RedisStoreOptions, true>;

/**
 * Records in Redis 7 or later, or Valkey: one plain command to claim, one lean script to settle.
 *
 * ```ts
 * const store = await openRedisStore({ url: 'redis://127.0.0.1:6379' });
 * ```
 */
export async function openRedisStore(options: RedisStoreOptions): Promise<RedisStore> {
  refuseUnknown('the redis store', options, KNOWN);
  const timeoutMs = options.timeoutMs ?? SECOND;
  if (!(timeoutMs > 0 && timeoutMs <= 30 * SECOND)) {
    throw invalidConfig(`timeoutMs is ${timeoutMs}; it must be above 0 and at most ${30 * SECOND}`);
  }
  const prefix = options.prefix ?? 'onceward:';
  if (/[{}]/.test(prefix)) throw invalidConfig(`prefix is ${prefix}; it must not hold braces`);

  const pattern = await patternFor(options, timeoutMs);
  const { servers, openAny } = await connectServers(pattern, timeoutMs);
  const waiters = new Waiters();
  let subscriptions: RedisLink | null = null;
  try {
    const masters = await servers.masters();
    await Promise.all(masters.map(checkVersion));
    const proof = await proveDurability(masters);
    requireDurability('redis', options.durability, proof.durability, proof.findings);
    await Promise.all(masters.map((link) => link.call('SCRIPT', 'LOAD', SWAP)));
    if (options.notifications !== false) {
      subscriptions = await RedisLink.connect(openAny, timeoutMs, {
        // Notifications were lost while there was no connection: every waiter reads again.
        connected: () => waiters.wakeAll(),
        message: (key) => waiters.wake(key),
      });
    }
    return new RedisStore({ servers, subscriptions, waiters, prefix, timeoutMs, proof });
  } catch (error) {
    servers.close();
    throw error;
  }
}

async function patternFor(
  options: RedisStoreOptions,
  timeoutMs: DurationMs,
): Promise<ConnectionPattern> {
  if ((options.url === undefined) === (options.client === undefined)) {
    throw invalidConfig('give either url or client, which say where Redis is');
  }
  if (options.client !== undefined) {
    return connectionPattern(options.client, timeoutMs).catch(unreachable);
  }
  const address = parseRedisUrl(options.url);
  if (options.tls !== undefined && !address.isSecure) {
    throw invalidConfig(
      'tls is given, but url begins with redis://, which is without; write rediss://',
    );
  }
  return wirePattern(address, options.tls ?? {}, timeoutMs);
}

async function connectServers(
  { nodes, seed, openTo }: ConnectionPattern,
  timeoutMs: DurationMs,
): Promise<{ servers: RedisServers; openAny: OpenConnection }> {
  if (nodes !== null) return connectCluster(openTo, nodes, timeoutMs);
  const open = openTo(null);
  const link = await RedisLink.connect(open, timeoutMs);
  const clustered = await isClustered(link);
  if (clustered && seed !== undefined) {
    link.close();
    return connectCluster(openTo, [seed], timeoutMs);
  }
  // A node of a cluster refuses what crosses slots, also to a client that knows no other.
  return { servers: singleServer(link, clustered), openAny: open };
}

async function connectCluster(
  openTo: ConnectionPattern['openTo'],
  seeds: readonly Address[],
  timeoutMs: DurationMs,
): Promise<{ servers: RedisServers; openAny: OpenConnection }> {
  const cluster = await RedisCluster.connect(openTo, seeds, timeoutMs);
  return { servers: cluster, openAny: cluster.openAny };
}

async function isClustered(link: RedisLink): Promise<boolean> {
  try {
    return String(await link.call('INFO', 'cluster')).includes('cluster_enabled:1');
  } catch (error) {
    link.close();
    throw error;
  }
}

function unreachable(cause: unknown): never {
  if (cause instanceof StoreError) throw cause;
  const message = `the nodes of the cluster cannot be reached: ${(cause as Error).message}`;
  throw new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause, applied: 'no' });
}

async function checkVersion(link: RedisLink): Promise<void> {
  const info = String(await link.call('INFO', 'server'));
  const version = /redis_version:(\d+)\.(\S+)/.exec(info);
  if (version === null || Number(version[1]) < 7) {
    throw invalidConfig(
      `Redis ${version?.slice(1).join('.') ?? '?'} is too old; 7.0 or later is needed`,
    );
  }
}
