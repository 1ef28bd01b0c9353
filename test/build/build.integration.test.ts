import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const execute = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs a program to its end; when it fails, the error shows what it printed. */
async function run(command: string, args: readonly string[], cwd = ROOT): Promise<string> {
  const { stdout } = await execute(command, args, { cwd }).catch((cause) => {
    throw new Error(`${cause.message}\n${cause.stdout}`, { cause });
  });
  return stdout;
}

/** The library is built in a copy, so that a build under test never takes away one that is in use. */
let workspace: string;
let library: string;

interface ExportTarget {
  readonly 'onceward-source': string;
  readonly types: string;
  readonly default: string;
}
const manifest: { exports: Record<string, string | ExportTarget> } = JSON.parse(
  await readFile(join(ROOT, 'packages/onceward/package.json'), 'utf8'),
);
const targets = Object.entries(manifest.exports).filter(
  (entry): entry is [string, ExportTarget] => typeof entry[1] !== 'string',
);

beforeAll(async () => {
  workspace = await mkdtemp(join(tmpdir(), 'onceward-build-'));
  library = join(workspace, 'packages/onceward');
  const notSources = /\/(node_modules|dist)$/;
  await cp(join(ROOT, 'packages/onceward'), library, {
    recursive: true,
    filter: (path) => !notSources.test(path),
  });
  for (const path of ['package.json', 'tsconfig.json', 'scripts']) {
    await cp(join(ROOT, path), join(workspace, path), { recursive: true });
  }
  await symlink(join(ROOT, 'node_modules'), join(workspace, 'node_modules'));
  await run('npm', ['run', '--silent', 'build'], library);
});

afterAll(() => rm(workspace, { recursive: true, force: true }));

describe('the built library', () => {
  it('has every entry of the export map where its source says', () => {
    for (const [, target] of targets) {
      const built = target['onceward-source'].replace('./src/', './dist/').replace(/\.ts$/, '');
      expect(target).toMatchObject({ types: `${built}.d.ts`, default: `${built}.js` });
    }
  });

  it('has the SQL and Lua that its sources have', async () => {
    const assetsIn = async (folder: string) => {
      const paths = await readdir(join(library, folder), { recursive: true });
      return paths.filter((path) => /\.(sql|lua|proto)$/.test(path)).sort();
    };
    expect(await assetsIn('dist')).toEqual(await assetsIn('src'));
  });

  it('is packed as publishers recommend', async () => {
    const { messages, pkg } = await publint({ pkgDir: library, strict: true });
    const texts = messages.map((message) => formatMessage(message, pkg, { color: false }));
    expect(texts).toEqual([]);
  });

  for (const [subpath, target] of targets) {
    it(`loads onceward${subpath.slice(1)} in plain Node`, async () => {
      const script = `
        const loaded = await import(${JSON.stringify(join(library, target.default))});
        process.stdout.write(Object.keys(loaded).join(' '));
      `;
      const stdout = await run(process.execPath, ['--input-type=module', '-e', script]);
      expect(stdout).not.toBe('');
    });
  }

  it('resolves its own name to what was built unless asked for the source', async () => {
    const script = `console.log(import.meta.resolve('onceward'))`;
    const args = ['--input-type=module', '-e', script];
    const built = await run(process.execPath, args, library);
    expect(built).toContain('/dist/index.js');
    const inSource = ['--conditions=onceward-source', ...args];
    const source = await run(process.execPath, inSource, library);
    expect(source).toContain('/src/index.ts');
  });

  it('has declarations that a strict consumer can read', async () => {
    const consumer = await mkdtemp(join(workspace, 'consumer-'));
    await mkdir(join(consumer, 'node_modules'));
    await symlink(library, join(consumer, 'node_modules/onceward'));
    await symlink(join(ROOT, 'node_modules/@types'), join(consumer, 'node_modules/@types'));
    const imports = targets.map(
      ([subpath], index) => `import * as m${index} from 'onceward${subpath.slice(1)}';`,
    );
    const names = targets.map((_, index) => `m${index}`).join(', ');
    await writeFile(join(consumer, 'package.json'), '{ "type": "module" }');
    await writeFile(join(consumer, 'a.ts'), `${imports.join('\n')}\nexport default [${names}];\n`);
    const compilerOptions = {
      strict: true,
      noEmit: true,
      module: 'nodenext',
      target: 'es2023',
      types: ['node'],
    };
    await writeFile(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    await run(process.execPath, [join(ROOT, 'node_modules/.bin/tsc'), '-p', '.'], consumer);
  });
});
