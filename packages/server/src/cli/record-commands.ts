import { type Command, InvalidArgumentError, Option } from 'commander';
import type { RecordViewBody } from '../api/admin/record-view.ts';
import { type AdminClient, adminClient, recordPath } from './admin-client.ts';
import { CommandFailure } from './exit-code.ts';
import { printable, report, table, time } from './output.ts';
import { ASKING, addSettingFlags, configFor } from './setting-flags.ts';

interface Recent {
  readonly records: readonly RecordViewBody[];
  readonly complete: boolean;
}

export type Options = Record<string, string | boolean | undefined>;

/** `ls`, `get`, `extend` and `purge`: what can be done with records. */
export function addRecordCommands(parent: Command): void {
  asking(parent, 'ls', 'list the records that changed last')
    .addOption(
      new Option('--state <state>', 'only those in this state').choices([
        'pending',
        'committed',
        'rejected',
        'in_doubt',
      ]),
    )
    .option('--scope <scope>', 'only of this scope')
    .option('--limit <count>', 'at most so many', countOf, '50')
    .action((options: Options) => list(clientOf(options), options));

  asking(parent, 'get <scope> <key>', 'show one record')
    .option('--body', 'with the kept answer, if the server allows it')
    .action((scope: string, key: string, options: Options) =>
      show(clientOf(options), scope, key, options),
    );

  asking(parent, 'extend <scope> <key>', 'keep a settled answer longer')
    .requiredOption('--ttl <seconds>', 'for how long from now')
    .requiredOption('--reason <text>', 'why, for the audit trail')
    .action(async (scope: string, key: string, options: Options) => {
      const seconds = Number(options.ttl);
      if (!(seconds > 0)) throw new CommandFailure('usage', '--ttl must be a number of seconds');
      const body = { ttl_ms: Math.round(seconds * 1_000), reason: options.reason };
      const client = clientOf(options);
      const record = await client.send<RecordViewBody>(
        'POST',
        `${recordPath(scope, key)}/extend`,
        body,
      );
      report(options, record, () => drawRecord(record));
    });

  asking(parent, 'purge <scope> <key>', 'forget a record, so that its key can be used again')
    .requiredOption('--reason <text>', 'why, for the audit trail')
    .action(async (scope: string, key: string, options: Options) => {
      const query = new URLSearchParams({ reason: String(options.reason) });
      await clientOf(options).send('DELETE', `${recordPath(scope, key)}?${query}`);
      report(options, { scope, key, purged: true }, () => `purged ${printable(key)}`);
    });
}

function countOf(text: string): string {
  if (/^[1-9]\d{0,5}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be a whole number from 1 on.');
}

export function asking(parent: Command, name: string, description: string): Command {
  const command = parent.command(name).description(description);
  return addSettingFlags(command, ASKING).option('--json', 'print JSON');
}

export function clientOf(options: Options): AdminClient {
  return adminClient(configFor(options).settings);
}

async function list(client: AdminClient, options: Options): Promise<void> {
  const query = new URLSearchParams({ limit: String(options.limit) });
  for (const name of ['state', 'scope']) {
    const value = options[name];
    if (typeof value === 'string') query.set(name, value);
  }
  const found = await client.get<Recent>(`/admin/idempotency/recent?${query}`);
  report(options, found, () => drawList(found));
}

function drawList(found: Recent): string {
  const rows = found.records.map((record) => [
    record.state,
    record.scope,
    record.key,
    String(record.attempt ?? ''),
    time(record.settled_at ?? record.since ?? record.created_at),
    time(record.keep_until),
  ]);
  const drawn = table(['state', 'scope', 'key', 'attempt', 'changed', 'kept until'], rows);
  if (found.complete) return drawn;
  return `${drawn}\nThe store holds more; narrow it with --scope or --state.`;
}

async function show(
  client: AdminClient,
  scope: string,
  key: string,
  options: Options,
): Promise<void> {
  const query = options.body === true ? '?body=1' : '';
  const record = await client.get<RecordViewBody>(recordPath(scope, key) + query);
  report(options, record, () => drawRecord(record));
}

const TIMES = new Set(['created_at', 'settled_at', 'keep_until', 'lease_until', 'since']);

function drawRecord(record: RecordViewBody): string {
  const rows = Object.entries(record).map(([name, value]) => {
    if (TIMES.has(name)) return [name, time(value as number)];
    return [name, typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });
  return table(['field', 'value'], rows);
}
