import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from './child-process.ts';
import { locateRuntime } from './other-runtimes.ts';
import { manifestOf, PackedPackages } from './packed-packages.ts';

/** What an entry loads when it is loaded. All others load nothing but the runtime's own. */
const PEERS: Readonly<Record<string, readonly string[]>> = {
  './hono': ['hono'],
  './nest': ['@nestjs/common', '@nestjs/core', 'rxjs'],
  './react': ['react'],
  './opentelemetry': ['@opentelemetry/api'],
  './testing': ['fast-check', 'vitest'],
};

const { exports } = await manifestOf('onceward');
const subpaths = Object.keys(exports).filter((subpath) => subpath !== './package.json');
const groups: readonly {
  readonly peers: readonly string[];
  readonly entries: readonly string[];
}[] = [
  { peers: [], entries: subpaths.filter((subpath) => PEERS[subpath] === undefined) },
  ...Object.entries(PEERS).map(([subpath, peers]) => ({ peers, entries: [subpath] })),
];

const runtimes = [
  { name: 'this node', program: process.execPath, args: [] as string[] },
  { name: 'node 22', program: await locateRuntime('node 22'), args: [] },
  { name: 'node 24', program: await locateRuntime('node 24'), args: [] },
  { name: 'bun', program: await locateRuntime('bun'), args: [] },
  { name: 'deno', program: await locateRuntime('deno'), args: ['run', '-A'] },
];

let packed: PackedPackages;
let projects: readonly string[];
/** For Node 20, which has no SQLite of its own. */
let withDriver: string;

beforeAll(async () => {
  packed = await PackedPackages.make('onceward');
  projects = await Promise.all(groups.map(({ peers }) => packed.project(['onceward'], peers)));
  for (const project of projects) {
    await writeFile(join(project, 'load.mjs'), LOAD);
  }
  withDriver = await packed.project(['onceward'], ['libsql']);
  await writeFile(join(withDriver, 'sqlite.mjs'), USE_SQLITE);
});
afterAll(() => packed?.dispose());

/** Loads what it is given by import, or by require, or both ways, and prints the names that it found. */
const LOAD = `
import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
const [way, ...entries] = process.argv.slice(2);
for (const entry of entries) {
  const loaded = way === 'require' ? require(entry) : await import(entry);
  const other = way === 'both' ? require(entry) : loaded;
  for (const name of Object.keys(loaded)) {
    if (loaded[name] !== other[name]) throw new Error(entry + ' has two of ' + name);
  }
  console.log(entry + ' ' + (Object.keys(loaded).length > 0));
}
// What an entry leaves behind, such as a runner of tests, does not hold this up.
process.exit(0);
`;

const USE_SQLITE = `
import { createOnceward } from 'onceward';
import { openSqliteStore } from 'onceward/sqlite';
const store = await openSqliteStore({ path: process.argv[2] });
const onceward = createOnceward({ store });
let runs = 0;
const place = () => onceward.once(
  { scope: 'shop', key: 'order-1', effect: { kind: 'external', onLapse: 'in_doubt' } },
  async () => ++runs,
);
console.log(JSON.stringify([await place(), await place(), runs]));
await store.close();
await store.close();
console.log('closed');
`;

for (const { name, program, args } of runtimes) {
  describe(`on ${name}`, () => {
    if (program === null) {
      // Nothing else can be loaded with it.
      it.skip('skipped: npm brings no binary of it to this machine');
      return;
    }
    for (const [at, { peers, entries }] of groups.entries()) {
      const of = peers.length === 0 ? 'no peer' : peers.join(', ');
      // Two copies would have two of each class, and an error of one is none of the other.
      it.each(['import', 'require', 'both'])(`%s loads what needs ${of}`, async (way) => {
        const asked = entries.map((entry) => `onceward${entry.slice(1)}`);
        const project = projects[at] as string;
        const said = await run(program, [...args, 'load.mjs', way, ...asked], project);
        expect(said.trim().split('\n')).toEqual(asked.map((entry) => `${entry} true`));
      });
    }

    it('a SQLite file is opened, used and closed twice', async () => {
      const path = join(withDriver, `${name.replace(' ', '-')}.db`);
      const said = await run(program, [...args, 'sqlite.mjs', path], withDriver);
      expect(said.trim().split('\n')).toEqual(['[1,1,1]', 'closed']);
    });
  });
}
