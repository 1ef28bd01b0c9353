import type { Command } from 'commander';
import { addSettingFlags, FORWARDING, LISTENING } from './setting-flags.ts';

export function addGateway(parent: Command): void {
  const command = parent
    .command('gateway')
    .description('proxy an HTTP API and make it safe to retry')
    .addHelpText('after', '\nExample: onceward gateway --upstream http://127.0.0.1:3000');
  addSettingFlags(command, [...FORWARDING, ...LISTENING]);
  command.action(async (options) => {
    // What was cut off may still hold timers; there is nothing left to wait for.
    const { runGateway } = await import('./run-gateway.ts');
    process.exit(await runGateway(options));
  });
}
