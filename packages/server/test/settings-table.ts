import type { Setting } from '../src/config/setting.ts';
import { SETTINGS, type SettingId } from '../src/config/settings.ts';

const BEGIN = '<!-- settings: begin -->';
const END = '<!-- settings: end -->';

/** The table of docs/reference/configuration.md, made from the settings themselves. */
export function settingsTable(): string {
  const rows = (Object.keys(SETTINGS) as SettingId[]).map((id) => {
    const setting: Setting<unknown> = SETTINGS[id];
    const flag = setting.flag === undefined ? '' : `\`--${setting.flag}\``;
    const cells = [`\`${setting.name}\``, flag, initialOf(setting), setting.kind.expected];
    return `| ${[...cells, setting.about].map(escapeCell).join(' | ')} |`;
  });
  return [
    '| name | flag | default | must be | what it does |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

/** The page with its table brought up to date. */
export function withSettingsTable(page: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin === -1 || end < begin) throw new Error(`the page has no ${BEGIN} and ${END}`);
  return `${page.slice(0, begin + BEGIN.length)}\n${settingsTable()}\n${page.slice(end)}`;
}

function initialOf({ initial }: Setting<unknown>): string {
  if (initial === null) return '';
  if (Array.isArray(initial)) return initial.length === 0 ? '' : `\`${initial.join(',')}\``;
  return `\`${initial instanceof URL ? initial.origin : String(initial)}\``;
}

function escapeCell(text: string): string {
  return text.replaceAll('|', '\\|');
}
