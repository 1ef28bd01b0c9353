import type { Command } from 'commander';
import { SETTINGS, type SettingId } from '../config/settings.ts';
import { showConfig } from '../config/show-config.ts';
import { report, table } from './output.ts';
import { addSettingFlags, configFor } from './setting-flags.ts';

export function addConfig(parent: Command): void {
  const command = parent
    .command('config')
    .description('print every setting, its value and where it came from');
  const flagged = (Object.keys(SETTINGS) as SettingId[]).filter((id) => 'flag' in SETTINGS[id]);
  addSettingFlags(command, flagged)
    .option('--json', 'print JSON')
    .action((options: Record<string, string | boolean | undefined>) => {
      const config = configFor(options);
      const shown = showConfig(config);
      const { routes } = config;
      report(options, { settings: shown, routes }, () => {
        const rows = shown.map(({ name, value, source }) => [name, show(value), source]);
        return table(['setting', 'value', 'from'], rows);
      });
    });
}

function show(value: unknown): string {
  if (value === null) return '(unset)';
  return Array.isArray(value) ? value.join(',') : String(value);
}
