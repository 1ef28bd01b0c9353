import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run, runToEnd } from './child-process.ts';
import { manifestOf, PackedPackages } from './packed-packages.ts';
import { publishingFaults, typeFaults } from './publishing-faults.ts';

let packed: PackedPackages;
beforeAll(async () => {
  packed = await PackedPackages.make('onceward', 'ledger', 'server');
});
afterAll(() => packed?.dispose());

/** Nothing is fetched: what is not installed is not there. */
const NPX = ['--offline', '--no', '--', 'onceward'];

/** The library by npm, which links its command, and beside it what else was asked for. */
async function install(ours: readonly string[], neighbours: readonly string[]): Promise<string> {
  const project = await packed.project([]);
  const flags = ['--offline', '--no-save', '--no-audit', '--no-fund'];
  await run('npm', ['install', ...flags, packed.tarball('onceward')], project);
  if (ours.length === 0) return project;
  const furnished = await packed.project(ours, neighbours);
  await run('cp', ['-r', `${furnished}/node_modules/.`, join(project, 'node_modules')]);
  await rm(furnished, { recursive: true, force: true });
  return project;
}

describe('npx onceward', () => {
  it('[U3] is the command where the server is installed', async () => {
    const needed = await Promise.all(['server', 'ledger'].map(manifestOf));
    const others = needed
      .flatMap(({ dependencies }) => Object.keys(dependencies ?? {}))
      .filter((name) => !name.includes('onceward'));
    const project = await install(['server', 'ledger'], [...new Set(others)]);
    const said = await run('npx', [...NPX, 'gateway', '--help'], project);
    expect(said).toContain('Usage: onceward gateway');
    const wrong = await runToEnd('npx', [...NPX, 'gateway', '--bogus'], project);
    expect(wrong.code).toBe(2);
  });

  it('[U3] says which package has the command where it is not, and ends with 127', async () => {
    const project = await install([], []);
    const asked = ['gateway', '--upstream', 'http://127.0.0.1:3000'];
    const { code, stdout, stderr } = await runToEnd('npx', [...NPX, ...asked], project);
    expect(stderr.split('\n').filter((line) => line.startsWith('onceward: '))).toEqual([
      'onceward: the command is in @onceward/server, which is not installed here; ' +
        'run `npx @onceward/server gateway --upstream http://127.0.0.1:3000`',
    ]);
    expect([code, stdout]).toEqual([127, '']);
  });
});

it.each(['ledger', 'server'])('@onceward/%s is packed as publint and attw want', async (name) => {
  expect(await publishingFaults(packed, name)).toEqual([]);
  // Programs of Node, which can require a module: they have no other format.
  const onlyModules = /^CJSResolvesToESM /;
  const faults = await typeFaults(packed, name);
  expect(faults.filter((fault) => !onlyModules.test(fault))).toEqual([]);
});
