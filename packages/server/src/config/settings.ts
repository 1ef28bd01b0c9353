import { identitySettings } from '../gateway/identity/identity-settings.ts';
import { jobSettings } from '../jobs/job-settings.ts';
import { ledgerSettings } from '../ledger/ledger-settings.ts';
import {
  fraction,
  httpUrl,
  type Kind,
  list,
  oneOf,
  type Setting,
  seconds,
  text,
  wholeNumber,
  yesOrNo,
} from './setting.ts';

const MIB = 1_048_576;
const A_YEAR = 366 * 86_400;
const PATH_PATTERN = /^\/[^\s?#]*$/;
const METHOD_PATTERN = /^[A-Z]{1,20}$/;

type About<T> = Omit<Setting<T>, 'kind'>;

function setting<T>(kind: Kind<NonNullable<T>>, about: NoInfer<About<T>>): Setting<T> {
  return { kind, ...about };
}

/** One that has no value unless it is given one. */
function unset<T>(kind: Kind<T>, about: Omit<About<T>, 'initial'>): Setting<T | null> {
  return { kind: kind as Kind<NonNullable<T>>, initial: null, ...about };
}

/** Where and how the program runs. */
const program = {
  host: setting(text(/^[\w.:-]{1,255}$/, 'a host name or an IP address'), {
    name: 'HOST',
    flag: 'host',
    initial: '127.0.0.1',
    about: 'Address to listen on.',
  }),
  port: setting(wholeNumber(0, 65_535), {
    name: 'PORT',
    flag: 'port',
    initial: 8080,
    about: 'Port to listen on; 0 takes a free one.',
  }),
  allowedHosts: setting(
    list(/^(\[[0-9a-fA-F:.]+\]|[\w.-]{1,253})$/, 'host names without ports, separated by commas'),
    {
      name: 'ONCEWARD_ALLOWED_HOSTS',
      initial: [],
      about:
        'Names under which the server is reached, beside localhost and its own address; requests for others get 421. Unset: no others, or any if HOST lets other machines in.',
    },
  ),
  localAccess: setting(yesOrNo(), {
    name: 'ONCEWARD_LOCAL_ACCESS',
    initial: true,
    about:
      'Callers on this machine may use jobs and the demo without a credential, unless HOST lets other machines in.',
  }),
  data: setting(text(/^[^\0]{1,4096}$/, 'the path of a folder'), {
    name: 'ONCEWARD_DATA',
    flag: 'data',
    initial: '.data/onceward',
    about: 'Folder of the embedded store, the credentials and the audit trail.',
  }),
  store: setting(oneOf('wal', 'memory', 'postgres', 'redis'), {
    name: 'ONCEWARD_STORE',
    flag: 'store',
    initial: 'wal',
    about:
      'Where records live: `wal` survives a crash and a power cut, `memory` nothing; `postgres` and `redis` can be shared by several processes.',
  }),
  storeUrl: unset(
    text(/^(postgres(ql)?|rediss?):\/\/\S{1,2000}$/, 'a postgres:, redis: or rediss: URL'),
    {
      name: 'ONCEWARD_STORE_URL',
      flag: 'store-url',
      secret: true,
      about:
        'The server of the store, where it is PostgreSQL or Redis. Authorities of your own for `rediss:` are named by `NODE_EXTRA_CA_CERTS`.',
    },
  ),
  apiKey: unset(text(/^ak_[\x21-\x7e]{1,200}$/, 'ak_ and up to 200 printable characters'), {
    name: 'ONCEWARD_API_KEY',
    flag: 'api-key',
    about: 'The admin credential. Unset: one is made at the first start and printed once.',
  }),
  apiSecret: unset(text(/^sk_[\x21-\x7e]{1,200}$/, 'sk_ and up to 200 printable characters'), {
    name: 'ONCEWARD_API_SECRET',
    flag: 'api-secret',
    secret: true,
    about: 'The secret that goes with ONCEWARD_API_KEY.',
  }),
  logLevel: setting(oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'), {
    name: 'ONCEWARD_LOG_LEVEL',
    flag: 'log-level',
    initial: 'info',
    about: 'Least important line that is logged.',
  }),
  drainSeconds: setting(seconds(0, 3_600), {
    name: 'ONCEWARD_DRAIN_SECONDS',
    initial: 25,
    about: 'How long running requests may take to finish after SIGTERM.',
  }),
  adminBodies: setting(yesOrNo(), {
    name: 'ONCEWARD_ADMIN_BODIES',
    initial: false,
    about: 'Lets the admin API show the kept answers themselves.',
  }),
  demo: setting(yesOrNo(), {
    name: 'ONCEWARD_DEMO',
    initial: true,
    about: 'Serves the demo orders API. It never answers callers from other machines.',
  }),
  maxOpenPerScope: setting(wholeNumber(1, 10_000_000), {
    name: 'ONCEWARD_MAX_OPEN_PER_SCOPE',
    initial: 10_000,
    about:
      'Operations of one scope that may be pending or in doubt at once, through the operations API and the demo. More get 429.',
  }),
  maxOpenPerTenant: setting(wholeNumber(1, 10_000_000), {
    name: 'ONCEWARD_MAX_OPEN_PER_TENANT',
    initial: 50_000,
    about: 'The same for all scopes of one tenant together. A client credential has a tenant.',
  }),
  url: setting(httpUrl(), {
    name: 'ONCEWARD_URL',
    flag: 'url',
    initial: new URL('http://127.0.0.1:8080'),
    about: 'The server that the commands talk to.',
  }),
  maxRequestBytes: setting(wholeNumber(1, 64 * MIB), {
    name: 'ONCEWARD_MAX_REQUEST_BYTES',
    initial: MIB,
    about: 'Longest body of a request that has to be read whole. Others stream.',
  }),
} as const;

/** The gateway's own. */
const gateway = {
  upstream: unset(httpUrl(), {
    name: 'ONCEWARD_UPSTREAM',
    flag: 'upstream',
    about: 'The API behind the gateway. The gateway does not start without it.',
  }),
  adminPort: setting(wholeNumber(0, 65_535), {
    name: 'ONCEWARD_ADMIN_PORT',
    flag: 'admin-port',
    initial: 8081,
    about: 'Port of the admin API, the health checks and the metrics of the gateway.',
  }),
  adminHost: setting(text(/^[\w.:-]{1,255}$/, 'a host name or an IP address'), {
    name: 'ONCEWARD_ADMIN_HOST',
    flag: 'admin-host',
    initial: '127.0.0.1',
    about: 'Address of the admin API, the health checks and the metrics of the gateway.',
  }),
  upstreamTimeoutSeconds: setting(seconds(0.05, 3_600), {
    name: 'ONCEWARD_UPSTREAM_TIMEOUT_SECONDS',
    flag: 'upstream-timeout',
    initial: 60,
    about: 'How long the upstream may stay silent.',
  }),
  upstreamConnections: setting(wholeNumber(1, 10_000), {
    name: 'ONCEWARD_UPSTREAM_CONNECTIONS',
    initial: 256,
    about: 'Connections to the upstream at most.',
  }),
  upstreamUnknown: setting(oneOf('in_doubt', 'release'), {
    name: 'ONCEWARD_UPSTREAM_UNKNOWN',
    initial: 'in_doubt',
    about:
      'What a request becomes whose upstream broke off or timed out after it was sent: `in_doubt` asks a person, `release` lets the retry run.',
  }),
  bufferBytes: setting(wholeNumber(MIB, 1_024 * MIB), {
    name: 'ONCEWARD_BUFFER_BYTES',
    initial: 64 * MIB,
    about: 'Bytes of bodies that the gateway holds at once; more requests wait for room.',
  }),
  minBodyRate: setting(wholeNumber(0, 1_024 * MIB), {
    name: 'ONCEWARD_MIN_BODY_RATE',
    initial: 1_024,
    about:
      'Bytes a second below which a body that is read whole is refused with 408, measured over five seconds; 0 sets no limit.',
  }),
  maxUpgrades: setting(wholeNumber(0, 1_000_000), {
    name: 'ONCEWARD_MAX_UPGRADES',
    initial: 1_024,
    about: 'Upgraded connections (WebSockets) that the gateway carries at once; 0 allows none.',
  }),
  upgradeTimeoutSeconds: setting(seconds(0.05, 3_600), {
    name: 'ONCEWARD_UPGRADE_TIMEOUT_SECONDS',
    initial: 10,
    about: 'How long the upstream may take to answer a request for an upgrade.',
  }),
} as const;

/** What happens to a key. Unset: the profile decides. */
const idempotency = {
  profile: setting(oneOf('http', 'sync', 'stripe'), {
    name: 'IDEMPOTENCY_PROFILE',
    flag: 'profile',
    initial: 'http',
    about: 'Named set of rules for the keys of the gateway.',
  }),
  mode: setting(oneOf('enforce', 'observe', 'off'), {
    name: 'IDEMPOTENCY_MODE',
    initial: 'enforce',
    about: '`observe` decides and counts but changes nothing.',
  }),
  shadowSampleRate: setting(fraction(0, 1), {
    name: 'IDEMPOTENCY_SHADOW_SAMPLE_RATE',
    initial: 1,
    about: 'Share of the keys that `observe` samples.',
  }),
  methods: setting(list(METHOD_PATTERN, 'names of methods, separated by commas'), {
    name: 'IDEMPOTENCY_METHODS',
    initial: ['POST', 'PUT', 'PATCH'],
    about: 'Methods whose keys count.',
  }),
  excludedPaths: setting(list(PATH_PATTERN, 'paths that begin with /, separated by commas'), {
    name: 'IDEMPOTENCY_EXCLUDED_PATHS',
    initial: [],
    about: 'Paths that are left alone; `/*` at the end stands for all below.',
  }),
  requireKey: setting(yesOrNo(), {
    name: 'IDEMPOTENCY_REQUIRE_KEY',
    initial: false,
    about: 'Refuses requests of those methods that bring no key.',
  }),
  pendingTtlSeconds: unset(seconds(0.01, A_YEAR), {
    name: 'IDEMPOTENCY_PENDING_TTL_SECONDS',
    about: 'Lease of a running request. It is renewed while the request runs.',
  }),
  committedTtlSeconds: unset(seconds(0.01, A_YEAR), {
    name: 'IDEMPOTENCY_COMMITTED_TTL_SECONDS',
    about: 'How long an answer is replayed.',
  }),
  rejectedTtlSeconds: unset(seconds(0.01, A_YEAR), {
    name: 'IDEMPOTENCY_REJECTED_TTL_SECONDS',
    about: 'How long a kept failure is replayed.',
  }),
  maxEntries: setting(wholeNumber(1, 100_000_000), {
    name: 'IDEMPOTENCY_MAX_ENTRIES',
    initial: 100_000,
    about: 'Settled answers held in memory before the store.',
  }),
  cleanupIntervalSeconds: setting(seconds(0.01, 86_400), {
    name: 'IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS',
    initial: 10,
    about: 'How often expired records are removed.',
  }),
  cleanupBatch: setting(wholeNumber(1, 1_000_000), {
    name: 'IDEMPOTENCY_CLEANUP_BATCH',
    initial: 5_000,
    about:
      'How many are removed in one pass; while more are left, passes follow a hundred times as fast.',
  }),
  waitForPending: unset(yesOrNo(), {
    name: 'IDEMPOTENCY_WAIT_FOR_PENDING',
    about: 'Whether a duplicate of a running request waits for its answer.',
  }),
  pendingWaitTimeout: unset(seconds(0, 3_600), {
    name: 'IDEMPOTENCY_PENDING_WAIT_TIMEOUT',
    about: 'How long it waits, in seconds.',
  }),
  maxBodyBytes: setting(wholeNumber(0, 64 * MIB), {
    name: 'IDEMPOTENCY_MAX_BODY_BYTES',
    initial: MIB,
    about: 'Longest answer that is kept.',
  }),
  keepStreams: setting(yesOrNo(), {
    name: 'IDEMPOTENCY_KEEP_STREAMS',
    initial: false,
    about: 'Keeps streamed answers too, up to the same length.',
  }),
  notRetained: setting(oneOf('refuse', 'rerun'), {
    name: 'IDEMPOTENCY_NOT_RETAINED',
    initial: 'refuse',
    about: 'What a retry gets when the answer was not kept: a 409 that says so, or another run.',
  }),
  fingerprint: setting(oneOf('raw', 'canonical'), {
    name: 'IDEMPOTENCY_FINGERPRINT',
    initial: 'raw',
    about: 'Whether two JSON bodies that differ only in order and spacing are the same request.',
  }),
  onLapse: setting(oneOf('in_doubt', 'take_over'), {
    name: 'IDEMPOTENCY_ON_LAPSE',
    initial: 'in_doubt',
    about: 'What a request becomes whose process died: asked about, or run again.',
  }),
  onStoreDown: setting(oneOf('refuse', 'run_unprotected'), {
    name: 'IDEMPOTENCY_ON_STORE_DOWN',
    initial: 'refuse',
    about: 'What happens while the store cannot be asked.',
  }),
  storeTimeoutSeconds: setting(seconds(0.001, 60), {
    name: 'IDEMPOTENCY_STORE_TIMEOUT_SECONDS',
    initial: 1,
    about: 'Bound on every call to the store.',
  }),
} as const;

export const SETTINGS = {
  ...program,
  ...gateway,
  ...identitySettings,
  ...idempotency,
  ...jobSettings,
  ...ledgerSettings,
} as const;

export type SettingId = keyof typeof SETTINGS;

type ValueOf<S> = S extends Setting<infer T> ? T : never;

/** A setting can be `null` only where the table has it begin unset. */
export type Settings = { readonly [Id in SettingId]: ValueOf<(typeof SETTINGS)[Id]> };
