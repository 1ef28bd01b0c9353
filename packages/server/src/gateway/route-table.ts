import type { IncomingMessage } from 'node:http';
import { HttpGuard, type HttpOptions } from 'onceward/http';
import { Problem } from '../api/problem.ts';
import type { Program } from '../compose.ts';
import { policyOf } from '../config/policy.ts';
import type { RouteSettings } from '../config/routes.ts';
import type { Settings } from '../config/settings.ts';
import { emitHttpEvent } from '../observability/http-events.ts';
import { Callers } from './identity/callers.ts';
import { IdentitySources } from './identity/identity-sources.ts';
import { isOwnAnswer } from './own-answers.ts';
import { readingsOf } from './path-readings.ts';

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
  /** Left alone, whatever the rules say. */
  readonly excluded: boolean;
}

interface Entry {
  readonly path: string;
  readonly pattern: RegExp;
  readonly rules: Rules;
}

/** The routes of the file, the first that fits counts, and the settings for all other paths. */
export class RouteTable {
  readonly #entries: readonly Entry[];
  readonly #excluded: readonly RegExp[];
  readonly #rest: Rules;

  constructor(program: Program) {
    const { settings, routes } = program.config;
    const sources = new IdentitySources();
    this.#rest = rulesOf(program, sources, settings);
    this.#excluded = settings.excludedPaths.map(excludingPatternOf);
    this.#entries = routes.map((route) => ({
      path: route.path,
      pattern: patternOf(route.path),
      rules: rulesOf(program, sources, { ...settings, ...route.settings }),
    }));
  }

  /** Every reading of the path must meet the same rules: otherwise a spelling could choose its own. */
  match(path: string): Matched {
    const [first, ...others] = readingsOf(path);
    const matched = this.#matchOne(first);
    for (const other of others) {
      const { rules, excluded } = this.#matchOne(other);
      if (rules === matched.rules && excluded === matched.excluded) continue;
      const detail = 'the path can be read in two ways that meet different rules here';
      throw new Problem(
        'invalid-request',
        `${detail}; send it without needless encodings and dots`,
      );
    }
    return matched;
  }

  #matchOne(path: string): Matched {
    const excluded = this.#excluded.some((pattern) => pattern.test(path));
    for (const { pattern, rules, path: route } of this.#entries) {
      if (pattern.test(path)) return { rules, route, excluded };
    }
    return { rules: this.#rest, route: path, excluded };
  }
}

/** `/a/*` fits `/a` too. Case and a slash at the end make no difference, as in most routers. */
export function patternOf(path: string): RegExp {
  const below = path.endsWith('/*');
  const segments = (below ? path.slice(0, -2) : path.replace(/(?<=.)\/$/, '')).split('/');
  const parts = segments.map((segment, index) => {
    if (segment.startsWith(':')) return '[^/]+';
    const literal = segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return index === segments.length - 1 ? literal.replace(/\\\*$/, '.*') : literal;
  });
  return new RegExp(`^${parts.join('/')}${below ? '(?:/.*)?' : '/?'}$`, 'is');
}

/** What is left alone is taken at its word: `/a/*` is all below `/a`. */
function excludingPatternOf(path: string): RegExp {
  const below = path.endsWith('/*');
  const literal = (below ? path.slice(0, -1) : path).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal}${below ? '' : '$'}`, 's');
}

function rulesOf(program: Program, sources: IdentitySources, settings: Settings): Rules {
  const { profile, mode } = settings;
  const emit = emitHttpEvent(program);
  const source = sources.open(settings);
  const callers = new Callers({ source, mode, profile, emit, log: program.log });
  const options: HttpOptions<IncomingMessage> = {
    engine: program.engine,
    scopeFrom: (request) => callers.scopeFrom(request),
    effect: { kind: 'external', onLapse: settings.onLapse },
    profile,
    policy: { ...policyOf(profile, settings), maxOutcomeBytes: settings.maxBodyBytes },
    required: settings.requireKey,
    methods: settings.methods,
    mode,
    sampleRate: settings.shadowSampleRate,
    fingerprint: settings.fingerprint,
    streams: settings.keepStreams ? 'keep' : 'pass',
    notRetained: settings.notRetained,
    maxBodyBytes: settings.maxRequestBytes,
    keep: (answer, standard) => standard && !isOwnAnswer(answer),
    log: emit,
  };
  return { guard: new HttpGuard(options), callers, settings };
}
