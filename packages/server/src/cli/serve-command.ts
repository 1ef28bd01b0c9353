import type { AddressInfo } from 'node:net';
import type { Command } from 'commander';
import { buildApp } from '../api/app.ts';
import { compose, type Program } from '../compose.ts';
import { programLog } from '../observability/program-log.ts';
import { EXIT } from './exit-code.ts';
import { runUntilSignal } from './lifecycle.ts';
import { listenFailure, urlOf } from './listen.ts';
import { print } from './output.ts';
import { addSettingFlags, configFor, JOBS, LISTENING } from './setting-flags.ts';

export function addServe(parent: Command): void {
  const command = parent
    .command('serve')
    .description('serve the operations, admin and demo APIs on the embedded store')
    .addHelpText(
      'after',
      '\nSIGTERM lets running requests finish; a second one ends at once.\nEvery setting: onceward config',
    );
  addSettingFlags(command, [...LISTENING, 'apiKey', 'apiSecret', ...JOBS]);
  command.action(async (options) => {
    // What was cut off may still hold timers; there is nothing left to wait for.
    process.exit(await serve(options));
  });
}

async function serve(options: Record<string, unknown>): Promise<number> {
  const config = configFor(options);
  const { host, port, logLevel, drainSeconds } = config.settings;
  const log = programLog(logLevel);
  const { ledger, role } = config.settings;
  const program = await compose(config, log, { ledger: ledger && role === 'both' });
  const app = await buildApp(program, { demo: config.settings.demo });
  try {
    await app.listen({ host, port });
  } catch (error) {
    await program.close();
    throw listenFailure(error, host, port);
  }
  // From here on a signal drains; whoever reads that it is ready may send one at once.
  const exit = runUntilSignal(
    {
      async drain() {
        await app.close();
        await program.close();
      },
      cutOff: () => app.server.closeAllConnections(),
    },
    drainSeconds * 1_000,
    log,
  );
  announceCredential(program);
  const address = app.server.address() as AddressInfo;
  print(`onceward is ready on ${urlOf(host, address.port)}`);
  return EXIT[await exit].code;
}

export function announceCredential({ madeCredential }: Program): void {
  if (madeCredential === null) return;
  print('The admin credential, shown this once; only its hash is kept:');
  print(`  ONCEWARD_API_KEY=${madeCredential.apiKey}`);
  print(`  ONCEWARD_API_SECRET=${madeCredential.apiSecret}`);
}
