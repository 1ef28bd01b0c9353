import { type Config, describeSource } from './load-config.ts';
import type { Setting } from './setting.ts';
import { SETTINGS, type SettingId } from './settings.ts';

/** One setting as people are shown it. */
export interface ShownSetting {
  readonly name: string;
  /** `null`: unset. Secrets are shown as stars, whatever their length. */
  readonly value: unknown;
  readonly source: string;
  readonly about: string;
}

export function showConfig(config: Config): ShownSetting[] {
  return (Object.keys(SETTINGS) as SettingId[]).map((id) => {
    const setting: Setting<unknown> = SETTINGS[id];
    const value: unknown = config.settings[id];
    return {
      name: setting.name,
      value: show(setting, value),
      source: describeSource(config.sources[id]),
      about: setting.about,
    };
  });
}

function show(setting: Setting<unknown>, value: unknown): unknown {
  if (value === null) return null;
  if (setting.secret === true) return '********';
  return value instanceof URL ? value.href : value;
}
