import { nearestName } from 'onceward';
import type { Setting } from './setting.ts';

export function describeBad(setting: Setting<unknown>, value: unknown): string {
  const shown = setting.secret === true ? 'not valid' : JSON.stringify(value);
  return `${setting.name} is ${shown}; it must be ${setting.kind.expected}`;
}

/** Names of old, and what is written instead. */
const RENAMED: Readonly<Record<string, string>> = {
  ONCEWARD_SCOPE_HEADERS: 'ONCEWARD_SCOPE_FROM=header:NAME[,NAME]',
};

export function hint(name: string, known: readonly string[]): string {
  const renamed = RENAMED[name];
  if (renamed !== undefined) return `; write ${renamed}`;
  const close = nearestName(name, known);
  return close === null ? '' : `; did you mean ${close}?`;
}
