#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { addConfig } from './cli/config-command.ts';
import { addDoctor } from './cli/doctor-command.ts';
import { EXIT, exitOf } from './cli/exit-code.ts';
import { addGateway } from './cli/gateway-command.ts';
import { addLedgerSettings } from './cli/ledger-settings-command.ts';
import { addRecordCommands } from './cli/record-commands.ts';
import { addResolve } from './cli/resolve-command.ts';
import { addServe } from './cli/serve-command.ts';
import { addStats } from './cli/stats-command.ts';
import { addTail } from './cli/tail-command.ts';
import { addVerify } from './cli/verify-command.ts';
import { VERSION } from './version.ts';

const program = new Command('onceward')
  .description('Make any operation happen once, no matter who retries it.')
  .version(VERSION)
  .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'onceward: ')) })
  .showHelpAfterError('(onceward --help shows what there is)')
  .exitOverride()
  .addHelpText('after', exitCodes());

addServe(program);
addGateway(program);
addRecordCommands(program);
addResolve(program);
addTail(program);
addStats(program);
addDoctor(program);
addVerify(program);
addLedgerSettings(program);
addConfig(program);

// The reader may close the pipe early, as `| head` does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : EXIT.failed.code);
});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = fail(error);
}

/** One line for each thing that is wrong, never a stack. */
function fail(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage.code;
  for (const line of messageOf(error).split('\n')) process.stderr.write(`onceward: ${line}\n`);
  return EXIT[exitOf(error)].code;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function exitCodes(): string {
  const lines = Object.values(EXIT).map(({ code, meaning }) => `  ${code}  ${meaning}`);
  return `\nExit codes:\n${lines.join('\n')}`;
}
