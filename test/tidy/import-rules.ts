import { dirname, join } from 'node:path';
import type { Finding, Rule } from './rule.ts';
import type { Import, SourceFile } from './source-file.ts';

/** What a room may import. Every room of the library stands here; a new one is added with its reasons. */
interface Room {
  /** A folder of packages/onceward/src, ending in a slash, or `''` for the files directly in it. */
  readonly room: string;
  /** Rooms, folders or files (all by prefix) that may be imported for their values. */
  readonly values: readonly string[];
  /** The same, for types only. */
  readonly types?: readonly string[];
  /** Packages, Node's own included, that may be imported. */
  readonly packages: RegExp;
}

const NONE = /^$/;
const NODE = /^node:/;
const ANY = /./;

const LIBRARY = 'packages/onceward/src/';

/** The first room whose prefix fits is the file's room. */
const ROOMS: readonly Room[] = [
  { room: 'engine/', values: ['engine/', 'keys/'], packages: NONE },
  { room: 'keys/', values: ['keys/'], packages: NONE },
  { room: 'http/', values: ['http/', 'engine/', 'keys/'], packages: NODE },
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
      'engine/errors.ts',
      'engine/units.ts',
      ...(store === 'wal' ? ['segment-log/'] : []),
    ],
    types: ['engine/'],
    packages: ANY,
  })),
  { room: 'jobs/', values: ['jobs/', 'engine/', 'keys/'], packages: ANY },
  { room: 'client/storages/node', values: ['client/', 'keys/'], packages: NODE },
  { room: 'client/', values: ['client/', 'keys/'], packages: /^idb$/ },
  {
    room: 'testing/',
    values: ['testing/', 'engine/', 'keys/', 'runtime/', 'http/', 'stores/memory/'],
    packages: ANY,
  },
  // Node's clock, chance, digests and codecs, in the form that the engine asks for.
  { room: 'runtime/', values: ['runtime/', 'engine/'], packages: NODE },
  // The front of the library gathers the engine and gives it the runtime.
  { room: '', values: ['engine/', 'keys/', 'runtime/'], packages: NODE },
];

/** Only the composition of the real program may name a concrete store. */
const CONCRETE_STORE = /^onceward\/(memory|wal|sqlite|redis|postgres|etcd)$/;
const COMPOSITION = 'packages/server/src/compose.ts';

export const importRule: Rule = {
  name: 'a room imports only what it may',
  check(file) {
    if (/\.test\.ts$|\/test\//.test(file.path)) return [];
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
  if (!file.path.startsWith(LIBRARY)) return null;

  const room = roomOf(file.path);
  if (room === undefined) return `${file.path} is in no room that test/tidy/import-rules.ts knows`;
  const name = room.room === '' ? 'the front' : room.room;
  if (!relative) {
    if (/^onceward(\/|$)/.test(specifier)) return `${specifier} must be imported by its path`;
    return room.packages.test(specifier) ? null : `${name} may not import ${specifier}`;
  }
  const inside = target.slice(LIBRARY.length);
  if (!inside.includes('/') && room.room === '') return null;
  const allowed = entry.typeOnly ? [...room.values, ...(room.types ?? [])] : room.values;
  if (allowed.some((prefix) => inside.startsWith(prefix))) return null;
  const asTypes = room.types?.some((prefix) => inside.startsWith(prefix)) === true;
  return `${name} may not import ${inside}${asTypes ? ' but for its types' : ''}`;
}

function roomOf(path: string): Room | undefined {
  const inside = path.slice(LIBRARY.length);
  return ROOMS.find(({ room }) => (room === '' ? !inside.includes('/') : inside.startsWith(room)));
}
