import { join } from 'node:path';
import { type Ledger, openLedger } from '@onceward/ledger';
import { type Engine, OncewardError, type RecordStore } from 'onceward';
import { memoryStore } from 'onceward/memory';
import { createTracedOnceward } from 'onceward/opentelemetry';
import { openWalStore } from 'onceward/wal';
import type { Logger } from 'pino';
import { AuditTrail } from './audit/audit-trail.ts';
import type { Config } from './config/load-config.ts';
import type { Settings } from './config/settings.ts';
import type { Secret } from './credentials/credential.ts';
import { CredentialStore } from './credentials/credential-store.ts';
import { ledgerOptions } from './ledger/ledger-settings.ts';
import { EventHub } from './observability/event-hub.ts';
import { logEvents } from './observability/event-log.ts';
import { Metrics } from './observability/metrics.ts';
import { Quota } from './quota/quota.ts';

/** Everything a running program is made of. Only this file knows the concrete stores. */
export interface Program {
  readonly config: Config;
  readonly log: Logger;
  readonly engine: Engine;
  readonly credentials: CredentialStore;
  /** The admin credential that this start has made, to be shown once. */
  readonly madeCredential: Secret | null;
  readonly audit: AuditTrail;
  readonly events: EventHub;
  readonly metrics: Metrics;
  /** How many records may be open at once. */
  readonly quota: Quota;
  /** `null` where none is served. */
  readonly ledger: Ledger | null;
  /** Stops the background work, then closes what is on disk. */
  close(): Promise<void>;
}

export interface Parts {
  /** Whether the ledger in the data folder is opened too. */
  readonly ledger?: boolean;
}

export async function compose(config: Config, log: Logger, parts: Parts = {}): Promise<Program> {
  const { settings } = config;
  // The store first: its lock says whether the folder is ours to write to.
  const store = await openStore(settings, log);
  const metrics = new Metrics();
  const events = new EventHub((err) => log.error({ err }, 'listener_failed'));
  events.listen(metrics.countEvent);
  events.listen(logEvents(log));
  const ledger = parts.ledger === true ? await openOwnLedger(settings, log, store) : null;
  // The credential last: once it is made, nothing may keep it from being shown.
  const { audit, credentials, made } = await openFiles(settings, ledger, store);
  const engine = createTracedOnceward({
    store,
    near: { maxEntries: settings.maxEntries },
    sweep: {
      everyMs: settings.cleanupIntervalSeconds * 1_000,
      batch: settings.cleanupBatch,
    },
    observe: events.emit,
    audit: (line) => audit.append(line),
  });
  metrics.watch(engine);
  const quota = new Quota(engine, settings, events.emit);
  events.listen(quota.note);
  // In the background: until it is counted, records left open by an earlier process do not count.
  quota.recount().catch((err: unknown) => log.warn({ err }, 'open_records_not_counted'));
  if (ledger !== null) metrics.watchLedger(ledger);
  return {
    config,
    log,
    engine,
    credentials,
    madeCredential: made,
    audit,
    events,
    metrics,
    quota,
    ledger,
    async close() {
      await ledger?.close();
      await engine.close(UNRECORDED_GRACE_MS);
      await store.close();
      await audit.close();
    },
  };
}

/** Answers that were given while the store took no writes are lost with the process: a while for those. */
const UNRECORDED_GRACE_MS = 5_000;

async function openStore(settings: Settings, log: Logger): Promise<RecordStore> {
  // A gate keeps nothing that outlives it: its managers do.
  if (settings.role === 'gate') return memoryStore();
  const timeoutMs = settings.storeTimeoutSeconds * 1_000;
  switch (settings.store) {
    case 'memory':
      return memoryStore();
    case 'postgres':
      return openPostgres(storeUrlOf(settings), timeoutMs, log);
    case 'redis':
      return openRedis(storeUrlOf(settings), timeoutMs);
    case 'wal':
      return openWalStore({
        directory: join(settings.data, 'wal'),
        onDamage: (damage) => log.error({ damage }, 'store_damage'),
      }).catch((error: unknown) => {
        throw explainFolder(settings.data, error);
      });
  }
}

/** Names the setting that leads to the folder, which is what can be changed. */
function explainFolder(data: string, error: unknown): unknown {
  if (!(error instanceof OncewardError)) return error;
  if (error.code === 'ONCE_STORE_LOCKED') {
    const remedy = 'Stop it, or choose another folder with ONCEWARD_DATA (--data).';
    return new OncewardError('ONCE_STORE_LOCKED', `${error.message} ${remedy}`, { cause: error });
  }
  return error.code === 'ONCE_INVALID_CONFIG' ? unusable(data, error.message, error) : error;
}

function unusable(data: string, why: string, cause: unknown): OncewardError {
  return new OncewardError(
    'ONCE_STORE_UNAVAILABLE',
    `ONCEWARD_DATA (--data) names ${data}, which cannot be used: ${why.replace(/\.$/, '')}. Choose a folder that this process may write to.`,
    { cause },
  );
}

function storeUrlOf({ store, storeUrl }: Settings): string {
  if (storeUrl?.startsWith(store)) return storeUrl;
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `ONCEWARD_STORE is ${store}, so ONCEWARD_STORE_URL must name its server: ${store}://…`,
  );
}

/** The drivers are loaded by those who use them. */
async function openPostgres(url: string, timeoutMs: number, log: Logger): Promise<RecordStore> {
  const [{ openPostgresStore }, { default: pg }] = await Promise.all([
    import('onceward/postgres'),
    import('pg'),
  ]);
  const pool = new pg.Pool({ connectionString: url });
  pool.on('error', (err) => log.warn({ err }, 'store_connection_lost'));
  const store = await openPostgresStore({ pool, timeoutMs });
  const close = store.close.bind(store);
  return Object.assign(store, {
    async close() {
      await close();
      await pool.end();
    },
  });
}

async function openRedis(url: string, timeoutMs: number): Promise<InspectedStore> {
  const { openRedisStore } = await import('onceward/redis');
  return openRedisStore({ url, timeoutMs });
}

/** One setting of a store's server, and what follows from it. */
export interface StoreFinding {
  readonly setting: string;
  readonly value: string;
  readonly limits: boolean;
  readonly says: string;
}

export type InspectedStore = RecordStore & { readonly findings: readonly StoreFinding[] };

/** Opens a store to check what it may promise. The caller closes it. */
export async function openToInspect(address: string, timeoutMs: number): Promise<InspectedStore> {
  const [scheme = '', rest = ''] = address.split(/:(?:\/\/)?(.*)/s);
  switch (scheme) {
    case 'redis':
    case 'rediss':
      return openRedis(address, timeoutMs);
    case 'postgres':
    case 'postgresql': {
      const { openPostgresStore } = await import('onceward/postgres');
      const { default: pg } = await import('pg');
      const pool = new pg.Pool({ connectionString: address, connectionTimeoutMillis: timeoutMs });
      // Statements report their errors; those of idle connections have no caller.
      pool.on('error', () => {});
      const opening = openPostgresStore({ pool, timeoutMs, migrate: false, notifications: false });
      // The connections in use end with the store; those that idle would keep the command alive.
      return opening.finally(() => void pool.end());
    }
    case 'sqlite': {
      const { openSqliteStore } = await import('onceward/sqlite');
      return openSqliteStore({ path: rest, timeoutMs });
    }
    case 'etcd': {
      const { openEtcdStore } = await import('onceward/etcd');
      const endpoints = rest.split(',').map((member) => `http://${member}`);
      return openEtcdStore({ endpoints, timeoutMs });
    }
    default:
      throw new OncewardError(
        'ONCE_INVALID_CONFIG',
        'a store is named by redis://…, postgres://…, sqlite:FILE or etcd://HOST:PORT,HOST:PORT',
      );
  }
}

/** The store goes if this does not open. */
async function openOwnLedger(settings: Settings, log: Logger, store: RecordStore): Promise<Ledger> {
  try {
    const directory = join(settings.data, 'ledger');
    const ledger = await openLedger({ directory, ...ledgerOptions(settings) });
    log.info({ ...ledger.opening }, 'ledger_opened');
    return ledger;
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function openFiles(settings: Settings, ledger: Ledger | null, store: RecordStore) {
  const { data, apiKey, apiSecret } = settings;
  try {
    const audit = await AuditTrail.open(data);
    const configured = apiKey === null || apiSecret === null ? null : { apiKey, apiSecret };
    const path = join(data, 'credentials.json');
    const { store: credentials, made } = await CredentialStore.open({ path, configured });
    return { audit, credentials, made };
  } catch (error) {
    await ledger?.close();
    await store.close();
    const { code, path = data } = error as NodeJS.ErrnoException;
    if (error instanceof OncewardError || code === undefined) throw error;
    throw unusable(data, `${path} cannot be written to (${code})`, error);
  }
}
