// Builds the packages that have a build, dependencies first; one whose sources have not changed is left as it is.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT, runChild } from './child.mjs';
import { ensureInstalled } from './install.mjs';

const NOT_SOURCES = new Set(['node_modules', 'dist', 'test', '.packed']);

export async function buildPackages({ force = false } = {}) {
  const stamps = new Map();
  for (const workspace of inDependencyOrder(readPackages())) {
    const { folder, manifest } = workspace;
    const stamp = hashSources(
      folder,
      dependenciesOf(manifest).map((name) => stamps.get(name) ?? ''),
    );
    stamps.set(manifest.name, stamp);
    const stampFile = join(folder, 'dist', '.built-from');
    if (manifest.scripts?.build === undefined) continue;
    if (!force && existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) continue;
    console.log(`Building ${manifest.name} …`);
    rmSync(join(folder, 'dist'), { recursive: true, force: true });
    const code = await runChild('npm', ['run', '--silent', 'build'], { cwd: folder });
    if (code !== 0) throw new Error(`The build of ${manifest.name} ended with exit code ${code}.`);
    writeFileSync(stampFile, stamp);
  }
}

function readPackages() {
  return readdirSync(join(ROOT, 'packages'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(ROOT, 'packages', entry.name))
    .filter((folder) => existsSync(join(folder, 'package.json')))
    .map((folder) => ({
      folder,
      manifest: JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')),
    }));
}

function dependenciesOf(manifest) {
  return Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
}

function inDependencyOrder(packages) {
  const byName = new Map(packages.map((entry) => [entry.manifest.name, entry]));
  const ordered = new Set();
  const visit = (entry, path) => {
    if (path.includes(entry))
      throw new Error(`${entry.manifest.name} depends on itself in a circle.`);
    for (const name of dependenciesOf(entry.manifest)) {
      const dependency = byName.get(name);
      if (dependency !== undefined) visit(dependency, [...path, entry]);
    }
    ordered.add(entry);
  };
  for (const entry of packages) visit(entry, []);
  return ordered;
}

function hashSources(folder, dependencyStamps) {
  const hash = createHash('sha256').update(JSON.stringify(dependencyStamps));
  for (const file of listFiles(folder)) {
    hash.update(`\0${relative(folder, file)}\0`).update(readFileSync(file));
  }
  return hash.digest('hex');
}

function listFiles(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !NOT_SOURCES.has(entry.name) && !entry.name.endsWith('.test.ts'))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? listFiles(path) : [path];
    });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await ensureInstalled();
  await buildPackages({ force: process.argv.includes('--force') });
}
