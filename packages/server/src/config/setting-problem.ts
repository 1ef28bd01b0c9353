import { nearest } from './nearest.ts';
import type { Setting } from './setting.ts';

export function describeBad(setting: Setting<unknown>, value: unknown): string {
  const shown = setting.secret === true ? 'not valid' : JSON.stringify(value);
  return `${setting.name} is ${shown}; it must be ${setting.kind.expected}`;
}

export function hint(name: string, known: readonly string[]): string {
  const close = nearest(name, known);
  return close === null ? '' : `; did you mean ${close}?`;
}
