import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { withSettingsTable } from './settings-table.ts';

it('[H18] every setting is in the configuration page as it is in the program', () => {
  const path = new URL('../../../docs/reference/configuration.md', import.meta.url);
  const page = readFileSync(path, 'utf8');
  // When this fails, `npm run settings` writes the table.
  expect(page).toBe(withSettingsTable(page));
});
