import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, run } from './child-process.ts';

const LIBRARY = join(ROOT, 'packages/onceward');
const NOT_SOURCES = /\/(node_modules|dist|\.packed|test)$/;

export interface Manifest {
  readonly exports: Readonly<Record<string, string | ExportTarget>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
}

interface Target {
  readonly types: string;
  readonly default: string;
}
export interface ExportTarget extends Target {
  readonly 'onceward-source': string;
  readonly bun?: string;
  readonly 'module-sync'?: Target;
  readonly require?: Target;
}

function nameOf(folder: string): string {
  return folder === 'onceward' ? folder : `@onceward/${folder}`;
}

export async function manifestOf(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(ROOT, 'packages', folder, 'package.json'), 'utf8'));
}

/** The packages as they would be published: built in a copy, so that no build in use is taken away, and packed. */
export class PackedPackages {
  readonly #workspace: string;
  readonly #projects: string[] = [];

  private constructor(workspace: string) {
    this.#workspace = workspace;
  }

  static async make(...folders: readonly string[]): Promise<PackedPackages> {
    const packed = new PackedPackages(await mkdtemp(join(tmpdir(), 'onceward-packed-')));
    const workspace = packed.#workspace;
    for (const path of ['package.json', 'tsconfig.base.json', 'scripts']) {
      await cp(join(ROOT, path), join(workspace, path), { recursive: true });
    }
    await symlink(join(ROOT, 'node_modules'), join(workspace, 'node_modules'));
    // Nearer than the workspace's own: the copies find each other, and what was built of them.
    const siblings = join(workspace, 'packages/node_modules');
    await mkdir(join(siblings, '@onceward'), { recursive: true });
    for (const folder of folders) {
      const copy = packed.folder(folder);
      await cp(join(ROOT, 'packages', folder), copy, {
        recursive: true,
        filter: (path) => !NOT_SOURCES.test(path),
      });
      await symlink(copy, join(siblings, nameOf(folder)));
      await run('npm', ['pack', '--silent', '--pack-destination', workspace], copy);
    }
    return packed;
  }

  /** Where a package was built. */
  folder(folder: string): string {
    return join(this.#workspace, 'packages', folder);
  }

  tarball(folder: string): string {
    const name = folder === 'onceward' ? folder : `onceward-${folder}`;
    return join(this.#workspace, `${name}-0.1.0.tgz`);
  }

  /** A stranger's project with nothing but what is named: packages of ours as packed, others as they are here. */
  async project(ours: readonly string[], neighbours: readonly string[] = []): Promise<string> {
    return this.#furnish(await mkdtemp(join(tmpdir(), 'onceward-project-')), ours, neighbours);
  }

  /** A project that finds all that the tests have installed, for tools that do not follow links out of it. */
  async projectWithin(ours: readonly string[]): Promise<string> {
    await mkdir(join(LIBRARY, '.packed'), { recursive: true });
    return this.#furnish(await mkdtemp(join(LIBRARY, '.packed/project-')), ours, []);
  }

  async #furnish(project: string, ours: readonly string[], neighbours: readonly string[]) {
    this.#projects.push(project);
    await writeFile(join(project, 'package.json'), '{ "name": "stranger", "private": true }\n');
    for (const folder of ours) {
      const home = join(project, 'node_modules', nameOf(folder));
      await mkdir(home, { recursive: true });
      await run('tar', ['-xzf', this.tarball(folder), '--strip-components=1', '-C', home]);
    }
    for (const name of neighbours) {
      await mkdir(join(project, 'node_modules', name, '..'), { recursive: true });
      await symlink(join(ROOT, 'node_modules', name), join(project, 'node_modules', name));
    }
    return project;
  }

  async dispose(): Promise<void> {
    for (const folder of [this.#workspace, ...this.#projects]) {
      await rm(folder, { recursive: true, force: true });
    }
  }
}
