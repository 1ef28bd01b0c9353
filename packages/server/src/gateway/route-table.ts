import type { IncomingMessage } from 'node:http';
import { HttpGuard, type HttpOptions } from 'onceward/http';
import type { Program } from '../compose.ts';
import { policyOf } from '../config/policy.ts';
import type { RouteSettings } from '../config/routes.ts';
import type { Settings } from '../config/settings.ts';
import { tellHttpEvent } from '../observability/http-events.ts';
import { Callers } from './identity/callers.ts';
import { IdentitySources } from './identity/identity-sources.ts';
import { isOwnAnswer } from './own-answers.ts';

/** What is done with the requests of some paths. */
export interface Rules {
  readonly guard: HttpGuard<IncomingMessage>;
  readonly callers: Callers;
  readonly settings: Settings & RouteSettings;
}

export interface Matched {
  readonly rules: Rules;
  /** What the records of this path are filed under: the pattern that fitted, or else the path itself. */
  readonly route: string;
}

interface Entry {
  readonly path: string;
  readonly pattern: RegExp;
  readonly rules: Rules;
}

/** The routes of the file, the first that fits counts, and the settings for all other paths. */
export class RouteTable {
  readonly #entries: readonly Entry[];
  readonly #rest: Rules;

  constructor(program: Program) {
    const { settings, routes } = program.config;
    const sources = new IdentitySources();
    this.#rest = rulesOf(program, sources, settings);
    this.#entries = routes.map((route) => ({
      path: route.path,
      pattern: patternOf(route.path),
      rules: rulesOf(program, sources, { ...settings, ...route.settings }),
    }));
  }

  match(path: string): Matched {
    for (const { pattern, rules, path: route } of this.#entries) {
      if (pattern.test(path)) return { rules, route };
    }
    return { rules: this.#rest, route: path };
  }
}

export function patternOf(path: string): RegExp {
  const segments = path.split('/').map((segment, index, all) => {
    if (segment === '*' && index === all.length - 1) return '.*';
    if (segment.startsWith(':')) return '[^/]+';
    const literal = segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return index === all.length - 1 ? literal.replace(/\\\*$/, '.*') : literal;
  });
  return new RegExp(`^${segments.join('/')}$`, 's');
}

function rulesOf(program: Program, sources: IdentitySources, settings: Settings): Rules {
  const { profile, mode } = settings;
  const tell = tellHttpEvent(program);
  const source = sources.open(settings);
  const callers = new Callers({ source, mode, profile, tell, log: program.log });
  const options: HttpOptions<IncomingMessage> = {
    engine: program.engine,
    scopeFrom: (request) => callers.scopeFrom(request),
    effect: { kind: 'external', onLapse: settings.onLapse },
    profile,
    policy: { ...policyOf(profile, settings), maxOutcomeBytes: settings.maxBodyBytes },
    required: settings.requireKey,
    methods: settings.methods,
    exclude: settings.excludedPaths,
    mode,
    sampleRate: settings.shadowSampleRate,
    fingerprint: settings.fingerprint,
    streams: settings.keepStreams ? 'keep' : 'pass',
    notRetained: settings.notRetained,
    maxBodyBytes: settings.maxRequestBytes,
    keep: (answer, standard) => standard && !isOwnAnswer(answer),
    log: tell,
  };
  return { guard: new HttpGuard(options), callers, settings };
}
