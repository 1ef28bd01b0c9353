import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ROOT, run } from './child-process.ts';
import { PackedPackages } from './packed-packages.ts';
import { codeOfPage } from './start-page.ts';

const NEXT = createRequire(join(ROOT, 'packages/onceward/package.json')).resolve(
  'next/dist/bin/next',
);
const QUIET = { NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' } as const;

let packed: PackedPackages;
let project: string;

beforeAll(async () => {
  packed = await PackedPackages.make('onceward');
  project = await packed.projectWithin(['onceward']);
  await mkdir(join(project, 'app/api/orders'), { recursive: true });
  const [route] = codeOfPage('next.md');
  await writeFile(join(project, 'app/api/orders/route.ts'), route?.code ?? '');
});
afterAll(() => packed?.dispose());

/** `next start` says where it listens. */
async function listening(child: ChildProcess): Promise<string> {
  let said = '';
  for await (const piece of child.stdout ?? []) {
    said += String(piece);
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
    if (url !== undefined && said.includes('Ready in')) return url;
  }
  throw new Error(`next start ended:\n${said}`);
}

it.each(['turbopack', 'webpack'])(
  '[H14] the page of Next.js as it stands is built by %s, and the built route answers a retry',
  async (bundler) => {
    await run(process.execPath, [NEXT, 'build', `--${bundler}`], project, QUIET);
    const args = [NEXT, 'start', '--port', '0', '--hostname', '127.0.0.1'];
    const child = spawn(process.execPath, args, {
      cwd: project,
      env: { ...process.env, ...QUIET },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    try {
      const url = await listening(child);
      const place = () =>
        fetch(`${url}/api/orders`, {
          method: 'POST',
          headers: { 'idempotency-key': bundler },
          body: JSON.stringify({ item: 'widget' }),
        });
      const first = await place();
      const retry = await place();
      expect([first.status, retry.status]).toEqual([201, 201]);
      expect(first.headers.get('idempotency-replayed')).toBe('false');
      expect(retry.headers.get('idempotency-replayed')).toBe('true');
      expect(await retry.text()).toBe(await first.text());
    } finally {
      child.kill('SIGTERM');
      await ended;
      await rm(join(project, '.next'), { recursive: true, force: true });
    }
  },
);
