import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT, run } from './child-process.ts';
import { type ExportTarget, manifestOf, PackedPackages } from './packed-packages.ts';
import { publishingFaults, typeFaults } from './publishing-faults.ts';

const { exports } = await manifestOf('onceward');
const targets = Object.entries(exports).filter(
  (entry): entry is [string, ExportTarget] => typeof entry[1] !== 'string',
);
/** The suites need vitest, which cannot be required. */
const ONLY_MODULES = './testing';

/** Whose types the declarations speak of. */
const TYPED = ['@nestjs', '@opentelemetry', '@types', 'fastify', 'hono', 'rxjs', 'vitest'];

let packed: PackedPackages;
let library: string;

beforeAll(async () => {
  packed = await PackedPackages.make('onceward');
  library = packed.folder('onceward');
});
afterAll(() => packed?.dispose());

describe('the built library', () => {
  it('has every entry of the export map where its source says, in both formats', () => {
    for (const [subpath, target] of targets) {
      const path = target['onceward-source'].replace('./src/', '').replace(/\.ts$/, '');
      const module = { types: `./dist/${path}.d.ts`, default: `./dist/${path}.js` };
      const script = { types: `./dist/cjs/${path}.d.ts`, default: `./dist/cjs/${path}.js` };
      const both = { bun: module.default, 'module-sync': module, require: script };
      expect(target).toEqual({
        'onceward-source': target['onceward-source'],
        ...(subpath === ONLY_MODULES ? {} : both),
        ...module,
      });
    }
  });

  it('is packed as publint recommends', async () => {
    expect(await publishingFaults(packed, 'onceward')).toEqual([]);
  });

  it('has types that fit what is loaded, as attw checks it', async () => {
    const faults = await typeFaults(packed, 'onceward');
    expect(faults).toEqual([`CJSResolvesToESM ${ONLY_MODULES}`]);
  });

  it('resolves its own name to what was built unless asked for the source', async () => {
    const script = `console.log(import.meta.resolve('onceward'))`;
    const args = ['--input-type=module', '-e', script];
    const built = await run(process.execPath, args, library);
    expect(built).toContain('/dist/index.js');
    const inSource = ['--conditions=onceward-source', ...args];
    const source = await run(process.execPath, inSource, library);
    expect(source).toContain('/src/index.ts');
  });

  it.each([
    ['module', 'nodenext', []],
    ['module', 'node16', []],
    ['commonjs', 'nodenext', [ONLY_MODULES]],
    // Here what is a module itself, as NestJS 12 is, cannot be imported at all.
    ['commonjs', 'node16', [ONLY_MODULES, './nest']],
  ] as const)('has declarations for a strict %s of %s', async (type, module, without) => {
    const entries = targets.filter(
      ([subpath]) => !(without as readonly string[]).includes(subpath),
    );
    const consumer = await packed.project(['onceward'], TYPED);
    const imports = entries.map(
      ([subpath], index) => `import * as m${index} from 'onceward${subpath.slice(1)}';`,
    );
    const names = entries.map((_, index) => `m${index}`).join(', ');
    await writeFile(join(consumer, 'package.json'), JSON.stringify({ type }));
    await writeFile(join(consumer, 'a.ts'), `${imports.join('\n')}\nexport default [${names}];\n`);
    const compilerOptions = {
      strict: true,
      noEmit: true,
      module,
      target: 'es2023',
      types: ['node'],
    };
    await writeFile(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    await run(process.execPath, [join(ROOT, 'node_modules/.bin/tsc'), '-p', '.'], consumer);
  });
});
