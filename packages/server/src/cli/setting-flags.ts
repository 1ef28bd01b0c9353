import { type Command, Option } from 'commander';
import { type Config, loadConfig } from '../config/load-config.ts';
import type { Setting } from '../config/setting.ts';
import { SETTINGS, type SettingId } from '../config/settings.ts';

export const LISTENING = ['host', 'port', 'data', 'store', 'storeUrl', 'logLevel'] as const;
export const FORWARDING = [
  'upstream',
  'adminHost',
  'adminPort',
  'apiKey',
  'apiSecret',
  'upstreamTimeoutSeconds',
  'scopeFrom',
  'jwks',
  'jwtIssuer',
  'jwtAudience',
  'jwtAlgorithms',
  'forwardAuthSubject',
  'forwardAuthTimeoutSeconds',
  'profile',
] as const;
export const JOBS = ['role', 'managers', 'dataCentre', 'homes'] as const;
export const ASKING = ['url', 'apiKey', 'apiSecret'] as const;

/** Gives a command the flags of these settings. Their values are checked with those from elsewhere, not here. */
export function addSettingFlags(command: Command, ids: readonly SettingId[]): Command {
  for (const id of ids) {
    const setting: Setting<unknown> = SETTINGS[id];
    const { name, initial } = setting;
    const otherwise = String(initial ?? '');
    const also = otherwise === '' ? name : `${name}, else ${otherwise}`;
    const option = new Option(`--${setting.flag} <value>`, `${setting.about} (${also})`);
    // Commander would name it in camel case; the flag's own name leads back to the setting.
    option.attributeName = () => setting.flag ?? id;
    command.addOption(option);
  }
  return command.option('--config <file>', 'settings file in JSON (ONCEWARD_CONFIG)');
}

/** The settings for one run of a command. */
export function configFor(options: Readonly<Record<string, unknown>>): Config {
  const { config: file } = options;
  const flags = Object.fromEntries(
    Object.entries(options).filter((entry): entry is [string, string] => {
      return typeof entry[1] === 'string';
    }),
  );
  return loadConfig({
    env: process.env,
    flags,
    ...(typeof file === 'string' ? { file } : {}),
  });
}
