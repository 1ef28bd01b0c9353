import { type Command, Option } from 'commander';
import { type AdminClient, recordPath } from './admin-client.ts';
import { CommandFailure } from './exit-code.ts';
import { printable, report } from './output.ts';
import { asking, clientOf, type Options } from './record-commands.ts';

interface BulkAnswer {
  readonly matched: number;
  readonly resolved: number;
  readonly skipped: number;
  readonly complete: boolean;
}

/** So many with one request: it must end well before the time that a request may take. */
const AT_ONCE = 2_000;

/** One operation in doubt, or all that match. */
export function addResolve(parent: Command): void {
  asking(parent, 'resolve [scope] [key]', 'resolve operations that are in doubt')
    .addOption(
      new Option('--as <verdict>', 'void: it did not happen')
        .choices(['committed', 'rejected', 'void'])
        .makeOptionMandatory(),
    )
    .requiredOption('--reason <text>', 'why, for the audit trail')
    .option('--all', 'all that match, instead of one')
    .option('--scope <scope>', 'with --all: only of this scope')
    .option('--scope-prefix <text>', 'with --all: only of scopes that begin so, such as shop/')
    .option('--older-than <seconds>', 'with --all: only those in doubt for at least so long')
    .option('--dry-run', 'with --all: count them and change nothing')
    .action(async (scope: string | undefined, key: string | undefined, options: Options) => {
      if (options.all === true) return resolveAll(scope, options);
      if (scope === undefined || key === undefined) {
        throw new CommandFailure('usage', 'name a SCOPE and a KEY, or --all with --scope');
      }
      return resolveOne(scope, key, options);
    });
}

async function resolveOne(scope: string, key: string, options: Options): Promise<void> {
  const body = { as: options.as, reason: options.reason };
  await clientOf(options).send('POST', `${recordPath(scope, key)}/resolve`, body);
  const result = { scope, key, resolved: options.as };
  report(options, result, () => `resolved ${printable(key)} as ${options.as}`);
}

async function resolveAll(argument: string | undefined, options: Options): Promise<void> {
  const { scope, scopePrefix, olderThan = '0', as, reason, dryRun } = options;
  if (argument !== undefined) {
    throw new CommandFailure('usage', '--all takes no SCOPE and KEY; use --scope');
  }
  if (scope === undefined && scopePrefix === undefined) {
    throw new CommandFailure('usage', '--all needs --scope or --scope-prefix');
  }
  const seconds = Number(olderThan);
  if (!(seconds >= 0)) throw new CommandFailure('usage', '--older-than must be seconds');
  const asked = {
    scope,
    scope_prefix: scopePrefix,
    older_than_ms: Math.round(seconds * 1_000),
    as,
    reason,
    dry_run: dryRun === true,
    limit: AT_ONCE,
  };
  const total = await untilComplete(clientOf(options), asked);
  report(options, total, () =>
    dryRun === true
      ? `${total.matched} would be resolved as ${as}`
      : `resolved ${total.resolved} as ${as}, skipped ${total.skipped}`,
  );
}

/** Asks until nothing is left, or nothing more can be done. */
async function untilComplete(client: AdminClient, asked: object): Promise<BulkAnswer> {
  const total = { matched: 0, resolved: 0, skipped: 0, complete: false };
  for (;;) {
    const next = await client.send<BulkAnswer>('POST', '/admin/idempotency/resolve', asked);
    total.matched += next.matched;
    total.resolved += next.resolved;
    total.skipped = next.skipped;
    total.complete = next.complete;
    if (next.complete || next.resolved === 0) return total;
    process.stderr.write(`resolved ${total.resolved} so far\n`);
  }
}
