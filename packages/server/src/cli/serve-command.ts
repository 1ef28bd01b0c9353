import type { Command } from 'commander';
import { addSettingFlags, JOBS, LISTENING } from './setting-flags.ts';

export function addServe(parent: Command): void {
  const command = parent
    .command('serve')
    .description('serve the operations, admin, ledger and demo APIs on the embedded store')
    .addHelpText(
      'after',
      '\nSIGTERM lets running requests finish; a second one ends at once.\nEvery setting: onceward config',
    );
  addSettingFlags(command, [...LISTENING, 'apiKey', 'apiSecret', 'ledgerGrpcPort', ...JOBS]);
  command.action(async (options) => {
    // What was cut off may still hold timers; there is nothing left to wait for.
    const { runServe } = await import('./run-serve.ts');
    process.exit(await runServe(options));
  });
}
