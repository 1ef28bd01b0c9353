import { dirname, join } from 'node:path';
import type { Finding, Rule } from './rule.ts';
import type { Import, SourceFile } from './source-file.ts';

/** A room of a package: what is in it, and what it may import. */
export interface Room {
  /** A folder of the package's src, ending in a slash, a file, or `''` for the files directly in src. */
  readonly room: string;
  /** What is in it, for the table in ARCHITECTURE.md. */
  readonly holds: string;
  /** Rooms, folders or files that may be imported for their values: by prefix, or by pattern. */
  readonly values: readonly (string | RegExp)[];
  /** The same, for types only. */
  readonly types?: readonly (string | RegExp)[];
  /** Packages, Node's own included, that may be imported. */
  readonly packages: RegExp;
}

const NONE = /^$/;
const NODE = /^node:/;
const ANY = /./;

/** What every store needs and no store owns lies beside them, and knows none of them. */
const BESIDE_STORES = /^stores\/[^/]+\.ts$/;
const STORES = {
  memory: 'a map in memory',
  wal: 'the embedded log, the default',
  sqlite: 'SQLite, in a thread of its own',
  redis: 'Redis, one server or a cluster',
  postgres: 'PostgreSQL, in batches',
  etcd: 'etcd, over gRPC',
} as const;

/** The engine's vocabulary and ports: what an operation, a policy, a record, a store and a world are. */
const BESIDE_ENGINE = /^engine\/[^/]+\.ts$/;

/** The first room whose prefix fits is the file's room. */
const LIBRARY_ROOMS: readonly Room[] = [
  {
    room: 'refusals/',
    holds: 'what every refusal is called and means, once, for both sides of the wire',
    values: ['refusals/'],
    packages: NONE,
  },
  {
    room: 'engine/record/',
    holds: 'the life of a record, pure: transitions, `decide`, codec',
    values: ['engine/record/', BESIDE_ENGINE],
    packages: NONE,
  },
  {
    room: 'engine/near/',
    holds: 'the bounded memory before the store',
    values: ['engine/near/', 'engine/record/', BESIDE_ENGINE],
    packages: NONE,
  },
  {
    room: 'engine/store-access/',
    holds: "bounded calls, the store's clock, writes for when it is back",
    values: ['engine/store-access/', 'engine/record/', BESIDE_ENGINE],
    packages: NONE,
  },
  {
    room: 'engine/run/',
    holds: 'an arrival from claim to settle: driver, claim, attempt; reservations, transactions',
    values: [
      'engine/run/',
      'engine/record/',
      'engine/near/',
      'engine/store-access/',
      BESIDE_ENGINE,
    ],
    packages: NONE,
  },
  {
    room: 'engine/operate/',
    holds: 'sweep, verdicts of operators, readiness',
    values: [
      'engine/operate/',
      'engine/record/',
      'engine/store-access/',
      'engine/run/answer.ts',
      'engine/run/doubt.ts',
      BESIDE_ENGINE,
    ],
    packages: NONE,
  },
  {
    room: 'engine/',
    holds: 'the front of the engine, its vocabulary and its ports',
    values: ['engine/', 'keys/', 'refusals/'],
    packages: NONE,
  },
  { room: 'keys/', holds: 'key syntax, minting, derivation', values: ['keys/'], packages: NONE },
  {
    room: 'http/',
    holds: 'what HTTP means, once: key header, fingerprint, capture, replay, problems',
    values: ['http/', 'engine/', 'keys/', 'refusals/', 'runtime/'],
    packages: NODE,
  },
  {
    room: 'doors/',
    holds: 'one small file a framework, no decisions',
    values: ['doors/', 'http/'],
    types: ['engine/'],
    packages: ANY,
  },
  {
    room: 'segment-log/',
    holds: 'append-only segments with group commit',
    values: ['segment-log/', 'engine/errors.ts', 'engine/units.ts'],
    packages: NODE,
  },
  ...Object.entries(STORES).map(([store, holds]) => ({
    room: `stores/${store}/`,
    holds,
    values: [
      `stores/${store}/`,
      BESIDE_STORES,
      'engine/errors.ts',
      'engine/known-options.ts',
      'engine/units.ts',
      ...(store === 'wal' ? ['segment-log/'] : []),
      // Finds records as the near tier finds answers.
      ...(store === 'memory' ? ['engine/near/key-hash.ts'] : []),
    ],
    types: ['engine/'],
    packages: ANY,
  })),
  {
    room: 'stores/',
    holds: 'what several stores need and no one store owns',
    values: [BESIDE_STORES, 'engine/errors.ts', 'engine/units.ts'],
    types: ['engine/'],
    packages: NODE,
  },
  {
    room: 'jobs/',
    holds: 'gate, manager, runner, dispatchers',
    values: ['jobs/', 'engine/', 'keys/'],
    packages: ANY,
  },
  {
    room: 'client/storages/node',
    holds: "the outbox's storage in Node",
    values: ['client/', 'keys/', 'segment-log/'],
    packages: NODE,
  },
  {
    room: 'client/react',
    holds: 'hooks for React',
    values: ['client/'],
    packages: /^react$/,
  },
  {
    room: 'client/',
    holds: 'fetch wrapper, outbox, groups, ledger client; web APIs only',
    values: ['client/', 'keys/', 'refusals/'],
    packages: /^idb$/,
  },
  {
    room: 'testing/',
    holds: 'published: store suite, door suite, manual world, fault proxy',
    values: ['testing/', 'engine/', 'keys/', 'runtime/', 'http/', 'segment-log/', 'stores/memory/'],
    packages: ANY,
  },
  {
    room: 'opentelemetry/',
    holds: 'spans around an engine',
    values: ['opentelemetry/', 'engine/', 'keys/', 'runtime/'],
    types: ['onceward.ts'],
    packages: /^@opentelemetry\/api$/,
  },
  {
    room: 'runtime/',
    holds: "Node's clock, randomness, SHA-256 and deflate, behind the engine's ports",
    values: ['runtime/', 'engine/'],
    packages: NODE,
  },
  {
    room: '',
    holds: 'the front: an engine with its runtime',
    values: ['engine/', 'keys/', 'runtime/'],
    packages: NODE,
  },
];

const LEDGER_EVERYWHERE = ['limits.ts', 'refusal.ts', 'earlier-format.ts'];

/**
 * The ledger. Rules know nothing of state, state nothing of the pipeline; only its home on disk knows LMDB and
 * files, and only the embedded log knows segments.
 */
const LEDGER_ROOMS: readonly Room[] = [
  {
    room: 'rules/',
    holds: 'what makes a request valid, and what a transaction may do',
    values: ['rules/', ...LEDGER_EVERYWHERE],
    types: ['state/'],
    packages: NONE,
  },
  {
    room: 'home/',
    holds: 'state on disk: LMDB, snapshots, damage',
    values: ['home/', 'state/', 'earlier-format.ts'],
    types: ['log/'],
    packages: /^(node:.*|lmdb|onceward(\/segment-log)?)$/,
  },
  {
    room: 'state/',
    holds: 'accounts, entities, keys and receipts, with their Merkle trees',
    values: ['state/', ...LEDGER_EVERYWHERE],
    types: ['log/', 'blocks/'],
    packages: /^node:crypto$/,
  },
  {
    room: 'log/',
    holds: 'log entries, and the embedded log',
    values: ['log/', 'rules/request-text.ts', 'earlier-format.ts'],
    types: ['rules/'],
    packages: /^onceward(\/segment-log)?$/,
  },
  {
    room: 'blocks/',
    holds: 'blocks, headers, proofs',
    values: ['blocks/', 'state/merkle-list.ts', 'rules/transaction-id.ts'],
    types: ['state/'],
    packages: /^onceward$/,
  },
  {
    room: 'pipeline/',
    holds: 'admit, batch, commit, apply, answer',
    values: ['pipeline/', 'rules/', 'state/', 'blocks/', 'log/log-entry.ts', ...LEDGER_EVERYWHERE],
    types: ['log/'],
    packages: /^(node:crypto|onceward|onceward\/keys)$/,
  },
  {
    room: 'rpc/',
    holds: 'generated from the `.proto`; doors speak it, the ledger itself does not',
    values: ['rpc/'],
    packages: /^@bufbuild\/protobuf(\/|$)/,
  },
  {
    room: '',
    holds: 'the front: joins the rooms, and is all that a door sees',
    values: ['rules/', 'state/', 'home/', 'log/', 'blocks/', 'pipeline/'],
    packages: /^(node:(crypto|path)|onceward(\/refusals)?)$/,
  },
];

const SERVER_BELOW = ['compose.ts', 'version.ts'];

/** The program. `app.ts` joins the rooms that serve; none of them knows it. */
const SERVER_ROOMS: readonly Room[] = [
  {
    room: 'config/',
    holds: 'settings from environment, file and flags, checked at the start',
    values: ['config/', 'version.ts', /-settings\.ts$/],
    packages: ANY,
  },
  {
    room: 'observability/',
    holds: 'metrics, event log, event hub',
    values: ['observability/'],
    packages: ANY,
  },
  { room: 'audit/', holds: 'the audit trail on disk', values: ['audit/'], packages: ANY },
  {
    room: 'credentials/',
    holds: 'API keys: made, hashed, checked, revoked',
    values: ['credentials/'],
    packages: ANY,
  },
  {
    room: 'quota/',
    holds: 'how many records a tenant may have open',
    values: ['quota/', 'api/problem.ts'],
    types: ['config/'],
    packages: ANY,
  },
  {
    room: 'api/',
    holds: 'operations and admin API, health, documents; access checks and problems for all routes',
    values: ['api/', 'config/', 'credentials/', ...SERVER_BELOW],
    types: ['audit/', 'observability/', 'quota/'],
    packages: ANY,
  },
  {
    room: 'gateway/',
    holds: 'admission, identity, forwarding, bounded buffers',
    values: ['gateway/', 'api/', 'config/', 'observability/', ...SERVER_BELOW],
    packages: ANY,
  },
  {
    room: 'jobs/',
    holds: 'HTTP routes of jobs, gate and manager',
    values: ['jobs/', 'api/', 'config/', 'credentials/', 'quota/', ...SERVER_BELOW],
    types: ['observability/'],
    packages: ANY,
  },
  {
    room: 'ledger/',
    holds: 'REST, Connect and gRPC routes of the ledger',
    values: ['ledger/', 'api/', 'config/', 'credentials/', ...SERVER_BELOW],
    types: ['observability/'],
    packages: ANY,
  },
  {
    room: 'demo/',
    holds: 'the orders API to try things with',
    values: ['demo/', 'api/', 'config/', 'observability/', ...SERVER_BELOW],
    packages: ANY,
  },
  { room: 'cli/', holds: 'the commands', values: [ANY], packages: ANY },
  { room: '', holds: 'the composition: stores, app, entry', values: [ANY], packages: ANY },
];

/** Packages whose rooms have rules, and how each would name itself from outside. */
export const PACKAGES = [
  { root: 'packages/onceward/src/', rooms: LIBRARY_ROOMS, self: /^onceward(\/|$)/ },
  { root: 'packages/ledger/src/', rooms: LEDGER_ROOMS, self: /^@onceward\/ledger(\/|$)/ },
  { root: 'packages/server/src/', rooms: SERVER_ROOMS, self: /^@onceward\/server(\/|$)/ },
];

/** Only the composition of the real program may name a concrete store. */
const CONCRETE_STORE = /^onceward\/(memory|wal|sqlite|redis|postgres|etcd)$/;
const COMPOSITION = 'packages/server/src/compose.ts';

export const importRule: Rule = {
  name: 'a room imports only what it may',
  check(file) {
    if (/\.(test|fixture)\.ts$|\/test\//.test(file.path)) return [];
    return file.imports.flatMap((entry) => {
      const why = forbids(file, entry);
      return why === null ? [] : [{ at: entry.at, why } satisfies Finding];
    });
  },
};

function forbids(file: SourceFile, entry: Import): string | null {
  const home = /^packages\/[^/]+\//.exec(file.path)?.[0];
  if (home === undefined) return null;
  const { specifier } = entry;
  if (file.path.startsWith('packages/server/') && file.path !== COMPOSITION) {
    if (CONCRETE_STORE.test(specifier)) return `only ${COMPOSITION} may import ${specifier}`;
  }
  const relative = specifier.startsWith('.');
  const target = relative ? join(dirname(file.path), specifier) : specifier;
  if (relative && !target.startsWith(home)) return `${specifier} leaves the package ${home}`;
  const own = PACKAGES.find(({ root }) => file.path.startsWith(root));
  if (own === undefined) return null;

  const { root, rooms, self } = own;
  const room = roomOf(file.path.slice(root.length), rooms);
  if (room === undefined) return `${file.path} is in no room that test/tidy/import-rules.ts knows`;
  const name = room.room === '' ? 'the front' : room.room;
  if (!relative) {
    if (self.test(specifier)) return `${specifier} must be imported by its path`;
    return room.packages.test(specifier) ? null : `${name} may not import ${specifier}`;
  }
  const inside = target.slice(root.length);
  if (!inside.includes('/') && room.room === '') return null;
  const allowed = entry.typeOnly ? [...room.values, ...(room.types ?? [])] : room.values;
  if (fits(inside, allowed)) return null;
  const asTypes = fits(inside, room.types ?? []);
  return `${name} may not import ${inside}${asTypes ? ' but for its types' : ''}`;
}

function fits(path: string, allowed: readonly (string | RegExp)[]): boolean {
  return allowed.some((one) => (typeof one === 'string' ? path.startsWith(one) : one.test(path)));
}

function roomOf(inside: string, rooms: readonly Room[]): Room | undefined {
  return rooms.find(({ room }) => (room === '' ? !inside.includes('/') : inside.startsWith(room)));
}
