import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OrdersServer, startOrdersServer } from './orders-server.ts';

const run = promisify(execFile);
const guide = readFileSync(new URL('../../../../docs/guides/client.md', import.meta.url), 'utf8');

const LANGUAGES = [
  {
    fence: 'python',
    item: 'from Python',
    program: 'python3',
    check: ['--version'],
    args: ['main.py'],
  },
  { fence: 'go', item: 'from Go', program: 'go', check: ['version'], args: ['run', 'main.go'] },
] as const;

let folder: string;
let server: OrdersServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'onceward-wire-'));
  server = await startOrdersServer();
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('the wire protocol from other languages', () => {
  for (const { fence, item, program, check, args } of LANGUAGES) {
    const isHere = spawnSync(program, check, { stdio: 'ignore' }).status === 0;
    const title = `[C3] the ${fence} snippet of the guide places one order over a broken connection`;
    // Skipped where the language's toolchain is not installed; the title says so.
    it.skipIf(!isHere)(
      isHere ? title : `${title} (skipped: ${program} is not installed)`,
      async () => {
        const code = new RegExp(`\`\`\`${fence}\\n([\\s\\S]*?)\`\`\``).exec(guide)?.[1] ?? '';
        writeFileSync(join(folder, args.at(-1) ?? ''), code);
        server.behave({ loseAnswers: 2 });
        const { stdout } = await run(program, [...args, `${server.url}/orders`], { cwd: folder });
        expect(stdout.trim().toLowerCase()).toBe('201 true');
        expect(server.effects().get(item)).toBe(1);
        expect(server.requests().get(item)).toBe(3);
      },
    );
  }
});
