import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { inspectLedger, type Said } from './inspection.ts';

const WRITER = fileURLToPath(new URL('./writer.ts', import.meta.url));
const LOADER = new URL('../../../scripts/typescript.mjs', import.meta.url).href;
const OPENS_WITHIN_MS = 60_000;
/** Each life begins with payments that earlier lives have made, or were about to. */
const ASKED_AGAIN = 100;
const LIVES_BETWEEN_INSPECTIONS = 10;

export interface LedgerCrashResult {
  readonly kills: number;
  readonly paid: number;
  readonly wrote: number;
  readonly complaints: readonly string[];
}

/** Kills one writer after another at random moments, all on one ledger, and looks at what each ten have left. */
export async function killLedgerWriters(
  kills: number,
  onKill: (count: number) => void = () => {},
): Promise<LedgerCrashResult> {
  const folder = await mkdtemp(join(tmpdir(), 'onceward-ledger-kill-'));
  const directory = join(folder, 'ledger');
  const said: Said & { highest: number } = { paid: new Set(), wrote: new Set(), highest: 0 };
  const complaints: string[] = [];
  try {
    for (let kill = 1; kill <= kills && complaints.length === 0; kill += 1) {
      await liveAndDie(directory, said);
      onKill(kill);
      if (kill % LIVES_BETWEEN_INSPECTIONS !== 0 && kill !== kills) continue;
      complaints.push(...(await inspectLedger(directory, said)));
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return { kills, paid: said.paid.size, wrote: said.wrote.size, complaints };
}

async function liveAndDie(directory: string, said: Said & { highest: number }): Promise<void> {
  const from = Math.max(0, said.highest - ASKED_AGAIN);
  const flags = ['--conditions=onceward-source', '--import', LOADER];
  const child = spawn(process.execPath, [...flags, WRITER, directory, String(from)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let error = '';
  let rest = '';
  const opened = new Promise<void>((resolve, reject) => {
    child.stderr.on('data', (data: Buffer) => {
      error = `${error}${data.toString()}`.slice(-2_000);
    });
    child.once('exit', () => reject(new Error(`The writer ended by itself: ${error}`)));
    child.stdout.on('data', (data: Buffer) => {
      // The kill may cut the last line short; only what ends in a line feed was said.
      const lines = `${rest}${data.toString()}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) hear(said, line, resolve);
    });
  });
  const silence = new Promise((resolve) => child.once('close', resolve));
  try {
    const late = pause(OPENS_WITHIN_MS, null, { ref: false }).then(() => {
      throw new Error(`The writer did not open the ledger: ${error}`);
    });
    await Promise.race([opened, late]);
    await pause(Math.random() * 250);
    if (child.exitCode !== null) throw new Error(`The writer ended by itself: ${error}`);
  } finally {
    opened.catch(() => {});
    child.kill('SIGKILL');
    await silence;
  }
}

function hear(said: Said & { highest: number }, line: string, opened: () => void): void {
  const [what, which = ''] = line.split(' ');
  if (what === 'open') opened();
  else if (what === 'wrote') said.wrote.add(which);
  else {
    said.paid.add(Number(which));
    said.highest = Math.max(said.highest, Number(which));
  }
}
