import { identityContradiction } from '../gateway/identity/identity-settings.ts';
import { ConfigError } from './config-error.ts';
import { type ConfigFile, readConfigFile } from './config-file.ts';
import { type Route, readRoutes } from './routes.ts';
import type { Setting } from './setting.ts';
import { describeBad, hint } from './setting-problem.ts';
import { SETTINGS, type SettingId, type Settings } from './settings.ts';

export type Source =
  | { readonly from: 'default' }
  | { readonly from: 'environment' }
  | { readonly from: 'file'; readonly path: string }
  | { readonly from: 'flag'; readonly flag: string };

export interface Config {
  readonly settings: Settings;
  readonly sources: Readonly<Record<SettingId, Source>>;
  /** Rules for some paths of the gateway; the first that fits counts. */
  readonly routes: readonly Route[];
}

export interface ConfigInput {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Values of flags, by the name of the flag without its dashes. */
  readonly flags?: Readonly<Record<string, string | undefined>>;
  /** The file named by `--config`; else the environment's ONCEWARD_CONFIG. */
  readonly file?: string;
}

/** Names with these beginnings are ours, so one that is not in the table is a mistake. */
const OURS = /^(ONCEWARD|IDEMPOTENCY)_/;
/** Others use this beginning too, so here only what is nearly the name of a setting, or a part of it, is a mistake. */
const PERHAPS_OURS = /^LEDGER_/;
const FILE_SETTING = 'ONCEWARD_CONFIG';

const IDS = Object.keys(SETTINGS) as SettingId[];

/** Flags go before the environment, the environment before the file, the file before the defaults. */
export function loadConfig(input: ConfigInput): Config {
  const problems: string[] = [];
  const path = input.file ?? given(input.env, FILE_SETTING);
  const file = path === undefined ? null : readConfigFile(path, problems);
  problems.push(...unknownNames(input, file));

  const values: Partial<Record<SettingId, unknown>> = {};
  const sources: Partial<Record<SettingId, Source>> = {};
  for (const id of IDS) {
    const setting: Setting<unknown> = SETTINGS[id];
    const found = find(setting, input, file);
    sources[id] = found.source;
    values[id] = found.value === undefined ? setting.initial : parse(setting, found, problems);
  }
  const routes = readRoutes(file, problems);
  const settings = values as Settings;
  problems.push(...contradictions(settings, routes));
  if (problems.length > 0) throw new ConfigError(problems);
  return { settings, sources: sources as Record<SettingId, Source>, routes };
}

interface Given {
  readonly value: unknown;
  readonly source: Source;
}

function find(setting: Setting<unknown>, input: ConfigInput, file: ConfigFile | null): Given {
  const { name, flag } = setting;
  const flagged = flag === undefined ? undefined : input.flags?.[flag];
  if (flag !== undefined && flagged !== undefined) {
    return { value: flagged, source: { from: 'flag', flag } };
  }
  const inEnvironment = given(input.env, name);
  if (inEnvironment !== undefined) {
    return { value: inEnvironment, source: { from: 'environment' } };
  }
  if (file !== null && Object.hasOwn(file.values, name)) {
    return { value: file.values[name], source: { from: 'file', path: file.path } };
  }
  return { value: undefined, source: { from: 'default' } };
}

function parse(setting: Setting<unknown>, found: Given, problems: string[]): unknown {
  const parsed = setting.kind.schema.safeParse(found.value);
  if (parsed.success) return parsed.data;
  problems.push(`${describeBad(setting, found.value)} (${describeSource(found.source)})`);
  return setting.initial;
}

export function describeSource(source: Source): string {
  switch (source.from) {
    case 'flag':
      return `flag --${source.flag}`;
    case 'file':
      return `file ${source.path}`;
    default:
      return source.from;
  }
}

function unknownNames(input: ConfigInput, file: ConfigFile | null): string[] {
  const known = IDS.map((id) => SETTINGS[id].name);
  const problems: string[] = [];
  for (const name of Object.keys(input.env)) {
    if (name === FILE_SETTING || known.includes(name)) continue;
    const close = hint(name, known) || (PERHAPS_OURS.test(name) ? hintByWords(name, known) : '');
    if (!OURS.test(name) && !(PERHAPS_OURS.test(name) && close !== '')) continue;
    problems.push(`${name} is no setting of onceward${close} (environment)`);
  }
  for (const name of Object.keys(file?.values ?? {})) {
    if (known.includes(name)) continue;
    problems.push(`${name} is no setting of onceward${hint(name, known)} (file ${file?.path})`);
  }
  return problems;
}

/** `LEDGER_TTL_HOURS` is a part of one name, and can mean nothing else. */
function hintByWords(name: string, known: readonly string[]): string {
  const words = name.split('_');
  if (words.length < 3) return '';
  const whole = known.find((other) => words.every((word) => other.split('_').includes(word)));
  return whole === undefined ? '' : `; did you mean ${whole}?`;
}

function contradictions(settings: Settings, routes: readonly Route[]): string[] {
  const problems: string[] = [];
  if ((settings.apiKey === null) !== (settings.apiSecret === null)) {
    problems.push('ONCEWARD_API_KEY and ONCEWARD_API_SECRET are set together or not at all');
  }
  const identity = identityContradiction(settings);
  if (identity !== null) return [...problems, identity];
  routes.forEach((route, index) => {
    const problem = identityContradiction({ ...settings, ...route.settings });
    if (problem !== null) problems.push(`routes[${index}]: ${problem}`);
  });
  return problems;
}

/** An empty variable is how shells and unit files unset one. */
function given(env: ConfigInput['env'], name: string): string | undefined {
  return env[name] === '' ? undefined : env[name];
}
