import type { ConfigFile } from './config-file.ts';
import type { Setting } from './setting.ts';
import { describeBad, hint } from './setting-problem.ts';
import { SETTINGS, type SettingId, type Settings } from './settings.ts';

/** What may differ from one path of the gateway to another. */
const ROUTE_SETTINGS = [
  'profile',
  'mode',
  'shadowSampleRate',
  'methods',
  'requireKey',
  'pendingTtlSeconds',
  'committedTtlSeconds',
  'rejectedTtlSeconds',
  'waitForPending',
  'pendingWaitTimeout',
  'maxBodyBytes',
  'keepStreams',
  'notRetained',
  'fingerprint',
  'onLapse',
  'onStoreDown',
  'upstreamUnknown',
  'upstreamTimeoutSeconds',
  'scopeFrom',
  'jwks',
  'jwtIssuer',
  'jwtAudience',
  'jwtAlgorithms',
  'forwardAuthSubject',
  'forwardAuthTimeoutSeconds',
] as const satisfies readonly SettingId[];

export type RouteSettings = Pick<Settings, (typeof ROUTE_SETTINGS)[number]>;

export interface Route {
  /** A path; `:name` stands for one segment, a trailing `*` for the rest. */
  readonly path: string;
  readonly settings: Partial<RouteSettings>;
}

const PATH = /^\/(?:[^\s?#*]*\*?)$/;

export function readRoutes(file: ConfigFile | null, problems: string[]): Route[] {
  if (file?.routes === undefined) return [];
  if (!Array.isArray(file.routes) || file.routes.length > 1_000) {
    problems.push(`routes must be a list of at most 1000 objects (file ${file.path})`);
    return [];
  }
  return file.routes.map((entry: unknown, index) =>
    readRoute(entry, (problem) =>
      problems.push(`routes[${index}]: ${problem} (file ${file.path})`),
    ),
  );
}

function readRoute(entry: unknown, report: (problem: string) => void): Route {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
    report('must be an object with a path');
    return { path: '/', settings: {} };
  }
  const { path, ...rest } = entry as Record<string, unknown>;
  if (typeof path !== 'string' || !PATH.test(path)) {
    report('path must begin with /, and * may stand only at its end');
  }
  const names = ROUTE_SETTINGS.map((id) => SETTINGS[id].name);
  const settings: Partial<Record<SettingId, unknown>> = {};
  for (const [name, value] of Object.entries(rest)) {
    const id = ROUTE_SETTINGS.find((candidate) => SETTINGS[candidate].name === name);
    if (id === undefined) {
      report(`${name} cannot be set for a route${hint(name, names)}`);
      continue;
    }
    const setting: Setting<unknown> = SETTINGS[id];
    const parsed = setting.kind.schema.safeParse(value);
    if (parsed.success) settings[id] = parsed.data;
    else report(describeBad(setting, value));
  }
  return { path: String(path), settings: settings as Partial<RouteSettings> };
}
