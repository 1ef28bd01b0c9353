import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PROGRAM = fileURLToPath(new URL('damage-process.ts', import.meta.url));
const DAMAGES = Number(process.env.LEDGER_DAMAGES ?? 60);

it('[L9] a folder damaged anywhere is rebuilt to the same bytes or refused with what to restore, and no signal comes', async () => {
  const seed = Number(process.env.LEDGER_DAMAGE_SEED ?? 1);
  const child = spawn(
    process.execPath,
    [
      '--conditions=onceward-source',
      '--import',
      `${ROOT}scripts/typescript.mjs`,
      PROGRAM,
      `${seed}`,
      `${DAMAGES}`,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk;
    });
  }
  const [code, signal] = await once(child, 'close');
  const lines = output.trim().split('\n');
  const wrong = lines.flatMap((line, at) =>
    line.startsWith('WRONG') ? [`${lines[at - 1]}: ${line}`] : [],
  );
  expect(wrong).toEqual([]);
  expect({ code, signal, last: lines.at(-1) }).toEqual({ code: 0, signal: null, last: 'done' });
}, 600_000);
