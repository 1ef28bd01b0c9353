import { access, constants, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Settings } from '../config/settings.ts';
import { type AdminClient, adminClient } from './admin-client.ts';
import { EXIT } from './exit-code.ts';
import { report, styled, table } from './output.ts';
import { ASKING, addSettingFlags, configFor } from './setting-flags.ts';
import type { Stats } from './stats-command.ts';
import type { Finding } from './store-check.ts';

type PromiseOf = (durability: string) => string;

const STALE_LIMIT = 1_000;
const LEAST_FREE_BYTES = 256 * 1_048_576;

export function addDoctor(parent: Command): void {
  const command = parent
    .command('doctor')
    .description('check the settings, the data folder, the store and the server');
  addSettingFlags(command, [...ASKING, 'data', 'store', 'storeUrl'])
    .option(
      '--look-at <address>',
      'only this store: redis://…, postgres://…, sqlite:FILE or etcd://HOST:PORT,…',
    )
    .option('--json', 'print JSON')
    .action(async (options: Record<string, string | boolean | undefined>) => {
      const { lookAt, ...flags } = options;
      const { settings } = configFor(flags);
      const { checkStore, promiseOf } = await import('./store-check.ts');
      const findings =
        typeof lookAt === 'string'
          ? await checkStore(settings, lookAt)
          : [
              { check: 'settings', result: 'ok', detail: 'all of them make sense' } as const,
              ...(await checkFolder(settings.data)),
              ...(await checkStore(settings, undefined)),
              ...(await checkServer(adminClient(settings), settings, promiseOf)),
            ];
      report(options, { findings }, () => draw(findings));
      if (findings.some(({ result }) => result === 'bad')) process.exitCode = EXIT.unwell.code;
    });
}

async function checkFolder(folder: string): Promise<Finding[]> {
  const check = 'data folder';
  const found = await stat(folder).catch(() => null);
  if (found === null) {
    return [
      { check, result: 'warn', detail: `${folder} is not here; it is made at the first start` },
    ];
  }
  const fault = !found.isDirectory()
    ? 'is not a folder'
    : await access(folder, constants.W_OK).then(
        () => null,
        () => 'cannot be written to by this user',
      );
  if (fault !== null) {
    const detail = `${folder} ${fault}; choose another with ONCEWARD_DATA (--data)`;
    return [{ check, result: 'bad', detail }];
  }
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const detail = `${Math.floor(free / 1_048_576)} MiB free at ${folder}`;
  const findings: Finding[] = [{ check, result: free < LEAST_FREE_BYTES ? 'bad' : 'ok', detail }];
  const secrets = await stat(join(folder, 'credentials.json')).catch(() => null);
  if (secrets !== null && (secrets.mode & 0o077) !== 0) {
    const why = 'credentials.json can be read by others; chmod 600 it';
    findings.push({ check: 'credentials', result: 'bad', detail: why });
  }
  return findings;
}

async function checkServer(
  client: AdminClient,
  settings: Settings,
  promiseOf: PromiseOf,
): Promise<Finding[]> {
  const ready = await client.open('/readyz').then(
    () => null,
    (error: Error) => error.message,
  );
  if (ready !== null) return [{ check: 'server', result: 'bad', detail: ready }];
  const findings: Finding[] = [{ check: 'server', result: 'ok', detail: settings.url.href }];
  try {
    findings.push(...checkStats(await client.get<Stats>('/admin/stats'), promiseOf));
  } catch (error) {
    findings.push({ check: 'credential', result: 'bad', detail: (error as Error).message });
  }
  const text = await (await client.open('/metrics')).text();
  const stale = Number(/^onceward_stale_keys (\d+)/m.exec(text)?.[1] ?? 0);
  findings.push({
    check: 'cleanup',
    result: stale > STALE_LIMIT ? 'bad' : 'ok',
    detail: `${stale} expired records wait to be removed`,
  });
  return findings;
}

function checkStats({ store, records }: Stats, promiseOf: PromiseOf): Finding[] {
  const inDoubt = records.in_doubt ?? 0;
  const forgetful = store.durability === 'none';
  return [
    {
      check: 'store in use',
      result: forgetful ? 'warn' : 'ok',
      detail: forgetful
        ? `${store.name} forgets everything when the process ends`
        : `${store.name}, ${promiseOf(store.durability)}`,
    },
    {
      check: 'in doubt',
      result: inDoubt > 0 ? 'warn' : 'ok',
      detail: inDoubt > 0 ? `${inDoubt} wait for a verdict: onceward ls --state in_doubt` : 'none',
    },
  ];
}

const COLOURS = { ok: 'green', warn: 'yellow', bad: 'red' } as const;

function draw(findings: readonly Finding[]): string {
  const rows = findings.map(({ check, result, detail }) => [
    styled(COLOURS[result], result),
    check,
    detail,
  ]);
  return table(['', 'check', 'finding'], rows);
}
