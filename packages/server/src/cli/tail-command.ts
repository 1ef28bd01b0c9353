import type { Command } from 'commander';
import { adminClient } from './admin-client.ts';
import { CommandFailure } from './exit-code.ts';
import { print, printable, time } from './output.ts';
import { readEvents, type ServerEvent } from './server-events.ts';
import { ASKING, addSettingFlags, configFor } from './setting-flags.ts';

export function addTail(parent: Command): void {
  const command = parent.command('tail').description('follow what the engine does');
  addSettingFlags(command, ASKING)
    .option('--json', 'print JSON, one event a line')
    .option('--count <events>', 'end after so many events')
    .action(async (options: Record<string, string | boolean | undefined>) => {
      const most = options.count === undefined ? Number.POSITIVE_INFINITY : Number(options.count);
      if (!(most > 0)) throw new CommandFailure('usage', '--count must be a number above 0');
      const response = await adminClient(configFor(options).settings).open('/admin/events');
      let seen = 0;
      for await (const event of readEvents(response)) {
        print(options.json === true ? event.data : describe(event));
        seen += 1;
        if (seen >= most) return;
      }
      throw new CommandFailure('unreachable', 'the server ended the stream');
    });
}

function describe(event: ServerEvent): string {
  const { at, type: _type, scope, key, key_hint: _hint, ...rest } = JSON.parse(event.data);
  const facts = Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  const names = [scope, key].filter((name) => typeof name === 'string');
  return printable([time(at), event.name, ...names, ...facts].join('  '));
}
