import type { Command } from 'commander';
import { adminClient } from './admin-client.ts';
import { report, table } from './output.ts';
import { ASKING, addSettingFlags, configFor } from './setting-flags.ts';

export interface Stats {
  readonly store: { readonly name: string; readonly durability: string };
  readonly records: Readonly<Record<string, number>>;
  readonly near: Readonly<Record<string, number>>;
  readonly uptime_seconds: number;
  readonly rss_bytes: number;
}

export function addStats(parent: Command): void {
  const command = parent.command('stats').description('what is kept, where, and by what');
  addSettingFlags(command, ASKING)
    .option('--json', 'print JSON')
    .action(async (options: Record<string, string | boolean | undefined>) => {
      const stats = await adminClient(configFor(options).settings).get<Stats>('/admin/stats');
      report(options, stats, () => draw(stats));
    });
}

function draw(stats: Stats): string {
  const rows = [
    ['store', `${stats.store.name} (survives: ${stats.store.durability})`],
    ...Object.entries(stats.records).map(([state, count]) => [`records ${state}`, `${count}`]),
    ...Object.entries(stats.near).map(([name, count]) => [`memory ${name}`, `${count}`]),
    ['uptime', `${Math.round(stats.uptime_seconds)} s`],
    ['resident memory', `${Math.round(stats.rss_bytes / 1_048_576)} MiB`],
  ];
  return table(['what', 'now'], rows);
}
