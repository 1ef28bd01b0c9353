// npm run settings: writes the table of docs/reference/configuration.md from the settings.
import { readFileSync, writeFileSync } from 'node:fs';
import { withSettingsTable } from './settings-table.ts';

const page = new URL('../../../docs/reference/configuration.md', import.meta.url);
writeFileSync(page, withSettingsTable(readFileSync(page, 'utf8')));
