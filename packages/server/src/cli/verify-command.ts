import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { InspectionReport } from '@onceward/ledger';
import type { Command } from 'commander';
import { OncewardError } from 'onceward';
import { CommandFailure, EXIT } from './exit-code.ts';
import { report, styled, table } from './output.ts';
import { addSettingFlags, configFor } from './setting-flags.ts';

const PROGRESS_EVERY_MS = 500;

export function addVerify(parent: Command): void {
  const command = parent
    .command('verify')
    .description('check every block, balance and log entry of the ledger in the data folder')
    .addHelpText(
      'after',
      '\nReads only. The server must not be running; ask a running one with GET /integrity.',
    );
  addSettingFlags(command, ['data']).option('--json', 'print JSON').action(verify);
}

async function verify(options: Record<string, string | boolean | undefined>): Promise<void> {
  const { settings } = configFor(options);
  const directory = join(settings.data, 'ledger');
  if ((await stat(directory).catch(() => null)) === null) {
    throw new CommandFailure('absent', `there is no ledger in ${settings.data}`);
  }
  const { ok, chain, state, log } = await inspect(directory);
  const { lostBefore, ...blocks } = chain;
  const assets = state.assets.map(({ sum, ...rest }) => ({ ...rest, sum: sum.toString() }));
  const shown = { ...blocks, lost_before: lostBefore };
  report(options, { ok, chain: shown, state: { ...state, assets }, log }, () => {
    const verdict = (fine: boolean, problem: string | null) =>
      fine ? styled('green', 'sound') : `${styled('red', 'NOT SOUND')}: ${problem}`;
    return table(
      ['what', 'verdict'],
      [
        [`blocks ${chain.first} to ${chain.last}`, verdict(chain.ok, chain.problem)],
        ...(lostBefore === null ? [] : [[`blocks before ${lostBefore}`, styled('red', 'LOST')]]),
        ['transactions in them', `${chain.transactions}`],
        [`state after block ${state.height}`, verdict(state.ok, state.problem)],
        [`log entries ${log.first} to ${log.last}`, verdict(log.ok, log.problem)],
        ...assets.map(({ asset, accounts, sum }) => [`sum of ${accounts} in ${asset}`, sum]),
      ],
    );
  });
  if (!ok) process.exitCode = EXIT.unwell.code;
}

async function inspect(directory: string): Promise<InspectionReport> {
  const { inspectLedger } = await import('@onceward/ledger');
  try {
    return await inspectLedger(directory, progressLine());
  } catch (error) {
    if (!(error instanceof OncewardError) || error.code !== 'ONCE_STORE_LOCKED') throw error;
    const hint = 'A running server is asked with GET /integrity.';
    throw new CommandFailure('storeLocked', `${error.message} ${hint}`, error);
  }
}

/** On the other stream, so that what is asked for can be piped. */
function progressLine(): (done: number, total: number) => void {
  let next = 0;
  return (done, total) => {
    const now = performance.now();
    if (now < next && done < total) return;
    next = now + PROGRESS_EVERY_MS;
    process.stderr.write(`verified ${done} of ${total} blocks\n`);
  };
}
