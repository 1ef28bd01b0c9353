import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from './child-process.ts';
import { manifestOf, PackedPackages } from './packed-packages.ts';

let packed: PackedPackages;
beforeAll(async () => {
  packed = await PackedPackages.make('onceward');
});
afterAll(() => packed?.dispose());

/** `npm install` of the packed library beside what a project has, as far as its decision which versions fit. */
async function resolveBeside(dependencies: Readonly<Record<string, string>>): Promise<string[]> {
  const project = await packed.project([]);
  const file = `file:${packed.tarball('onceward')}`;
  const manifest = { private: true, dependencies: { ...dependencies, onceward: file } };
  await writeFile(join(project, 'package.json'), JSON.stringify(manifest));
  const flags = ['--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund'];
  await run('npm', ['install', '--prefer-offline', ...flags], project);
  const lock = JSON.parse(await readFile(join(project, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version?: string }>;
  };
  return Object.keys(dependencies).map((name) => {
    const { version } = lock.packages[`node_modules/${name}`] ?? {};
    return `${name}@${version?.split('.')[0]}`;
  });
}

it.each([
  { express: '4', rxjs: '6' },
  { fastify: '4', ioredis: '4' },
  { koa: '2', 'better-sqlite3': '9' },
  { 'pg-boss': '9', pg: '8' },
])('npm installs the library beside %o, used or not', async (dependencies) => {
  const asked = Object.entries(dependencies).map(([name, version]) => `${name}@${version}`);
  expect(await resolveBeside(dependencies)).toEqual(asked);
});

it('every peer is optional and of any version: doors and stores say what they need', async () => {
  const { peerDependencies, peerDependenciesMeta } = await manifestOf('onceward');
  for (const [name, range] of Object.entries(peerDependencies)) {
    expect({ name, range, ...peerDependenciesMeta[name] }).toEqual({
      name,
      range: '*',
      optional: true,
    });
  }
});
