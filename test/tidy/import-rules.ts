import { dirname, join } from 'node:path';
import type { Finding, Rule } from './rule.ts';
import type { Import, SourceFile } from './source-file.ts';

/** What a room may import. Every room of the library stands here; a new one is added with its reasons. */
interface Room {
  /** A folder of the package's src, ending in a slash, a file, or `''` for the files directly in src. */
  readonly room: string;
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

const LIBRARY = 'packages/onceward/src/';

/** The first room whose prefix fits is the file's room. */
const ROOMS: readonly Room[] = [
  // What every refusal means, for both sides of the wire: pure data.
  { room: 'refusals/', values: ['refusals/'], packages: NONE },
  { room: 'engine/', values: ['engine/', 'keys/', 'refusals/'], packages: NONE },
  { room: 'keys/', values: ['keys/'], packages: NONE },
  { room: 'http/', values: ['http/', 'engine/', 'keys/', 'refusals/', 'runtime/'], packages: NODE },
  { room: 'doors/', values: ['doors/', 'http/'], types: ['engine/'], packages: ANY },
  {
    room: 'segment-log/',
    values: ['segment-log/', 'engine/errors.ts', 'engine/units.ts'],
    packages: NODE,
  },
  ...['memory', 'wal', 'sqlite', 'redis', 'postgres', 'etcd'].map((store) => ({
    room: `stores/${store}/`,
    values: [
      `stores/${store}/`,
      BESIDE_STORES,
      'engine/errors.ts',
      'engine/known-options.ts',
      'engine/units.ts',
      ...(store === 'wal' ? ['segment-log/'] : []),
      // Finds records as the near tier finds answers.
      ...(store === 'memory' ? ['engine/key-hash.ts'] : []),
    ],
    types: ['engine/'],
    packages: ANY,
  })),
  // What several stores need and no one store owns: plain files beside the folders.
  {
    room: 'stores/',
    values: [BESIDE_STORES, 'engine/errors.ts', 'engine/units.ts'],
    types: ['engine/'],
    packages: NODE,
  },
  { room: 'jobs/', values: ['jobs/', 'engine/', 'keys/'], packages: ANY },
  { room: 'client/storages/node', values: ['client/', 'keys/', 'segment-log/'], packages: NODE },
  { room: 'client/', values: ['client/', 'keys/', 'refusals/'], packages: /^idb$/ },
  {
    room: 'testing/',
    values: ['testing/', 'engine/', 'keys/', 'runtime/', 'http/', 'segment-log/', 'stores/memory/'],
    packages: ANY,
  },
  // Node's clock, chance, digests and codecs, in the form that the engine asks for.
  {
    room: 'opentelemetry/',
    values: ['opentelemetry/', 'engine/', 'keys/', 'runtime/'],
    types: ['onceward.ts'],
    packages: /^@opentelemetry\/api$/,
  },
  { room: 'runtime/', values: ['runtime/', 'engine/'], packages: NODE },
  // The front of the library gathers the engine and gives it the runtime.
  { room: '', values: ['engine/', 'keys/', 'runtime/'], packages: NODE },
];

const LEDGER = 'packages/ledger/src/';
const LEDGER_EVERYWHERE = ['limits.ts', 'refusal.ts', 'earlier-format.ts'];

/**
 * The ledger. Rules know nothing of state, state nothing of the pipeline; only its home on disk knows LMDB and
 * files, and only the embedded log knows segments.
 */
const LEDGER_ROOMS: readonly Room[] = [
  { room: 'rules/', values: ['rules/', ...LEDGER_EVERYWHERE], types: ['state/'], packages: NONE },
  {
    room: 'home/',
    values: ['home/', 'state/', 'earlier-format.ts'],
    types: ['log/'],
    packages: /^(node:.*|lmdb|onceward(\/segment-log)?)$/,
  },
  {
    room: 'state/',
    values: ['state/', ...LEDGER_EVERYWHERE],
    types: ['log/', 'blocks/'],
    packages: /^node:crypto$/,
  },
  {
    room: 'log/',
    values: ['log/', 'rules/request-text.ts', 'earlier-format.ts'],
    types: ['rules/'],
    packages: /^onceward(\/segment-log)?$/,
  },
  {
    room: 'blocks/',
    values: ['blocks/', 'state/merkle-list.ts', 'rules/transaction-id.ts'],
    types: ['state/'],
    packages: NONE,
  },
  {
    room: 'pipeline/',
    values: ['pipeline/', 'rules/', 'state/', 'blocks/', 'log/log-entry.ts', ...LEDGER_EVERYWHERE],
    types: ['log/'],
    packages: /^(node:crypto|onceward|onceward\/keys)$/,
  },
  // Made from the .proto; doors speak it, the ledger itself does not.
  { room: 'rpc/', values: ['rpc/'], packages: /^@bufbuild\/protobuf(\/|$)/ },
  // The front joins the rooms, gives them the real world, and is all that a door sees.
  {
    room: '',
    values: ['rules/', 'state/', 'home/', 'log/', 'blocks/', 'pipeline/'],
    packages: /^(node:(crypto|path)|onceward(\/refusals)?)$/,
  },
];

/** Packages whose rooms have rules, and how each would name itself from outside. */
const PACKAGES = [
  { root: LIBRARY, rooms: ROOMS, self: /^onceward(\/|$)/ },
  { root: LEDGER, rooms: LEDGER_ROOMS, self: /^@onceward\/ledger(\/|$)/ },
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
