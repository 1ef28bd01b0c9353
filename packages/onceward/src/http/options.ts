import type { Engine } from '../engine/engine.ts';
import { OncewardError } from '../engine/errors.ts';
import { refuseUnknown } from '../engine/known-options.ts';
import type { Probe } from '../engine/operation.ts';
import {
  checkPolicy,
  type Policy,
  refuseUnknownPolicy,
  requireDuration,
} from '../engine/policy.ts';
import { type ProfileName, profiles } from '../engine/profiles.ts';
import type { OnLapse } from '../engine/record.ts';
import type { RecordStore } from '../engine/record-store.ts';
import type { Transact } from '../engine/run/transaction.ts';
import { type DurationMs, KIB, MIB, MINUTE } from '../engine/units.ts';
import { engineOf } from '../runtime/engine-of.ts';
import type { HttpAnswer } from './answer.ts';
import type { HttpEvent } from './events.ts';
import type { FingerprintRule } from './request/fingerprint.ts';

/** What kind of effect the handler has. There is no default: only its author knows. */
export type HttpEffect =
  /** The target dedupes on `req.idempotency.downstreamKey`, so a lost attempt is repeated. */
  | { readonly kind: 'downstream' }
  /** Anything else: say what a lost attempt means. */
  | { readonly kind: 'external'; readonly onLapse: OnLapse }
  /** The handler writes in the store's own database: record and effect share one commit. */
  | { readonly kind: 'transaction'; readonly transact: Transact<unknown> };

export type Mode = 'off' | 'observe' | 'enforce';

/** What can be set for one route alone. */
export interface RouteOptions<Request> {
  readonly effect?: HttpEffect;
  readonly profile?: ProfileName;
  readonly policy?: Partial<Policy>;
  /** A request without a key is refused. Left out, it runs unprotected. */
  readonly required?: boolean;
  /** Managed methods; POST, PUT and PATCH by default. */
  readonly methods?: readonly string[];
  /** Paths that are left alone: as they are, with `/*` at the end for all below, or as a pattern. */
  readonly exclude?: readonly (string | RegExp)[];
  readonly mode?: Mode;
  /** In `observe`: the share of keys that is sampled, 0 to 1. All requests with one key are, or none. */
  readonly sampleRate?: number;
  /** Finds the key elsewhere than in the headers. `undefined`: this request has none. */
  readonly keyFrom?: (request: Request) => string | undefined;
  readonly fingerprint?: FingerprintRule<Request>;
  /** Whether an answer is kept and given again; `standard` is what the profile says. */
  readonly keep?: (answer: HttpAnswer, standard: boolean) => boolean;
  /** `pass`: an answer that comes in pieces over time goes out as it comes and is not kept. */
  readonly streams?: 'pass' | 'keep';
  /** What a retry gets when the answer was not kept for its size or for being a stream. */
  readonly notRetained?: 'refuse' | 'rerun';
  /** The longest request body that is compared; a longer one is refused. */
  readonly maxBodyBytes?: number;
  /** How long a handler may still answer after its caller has left. */
  readonly abandonAfterMs?: DurationMs;
  readonly probe?: Probe;
}

interface Foundation<Request> extends RouteOptions<Request> {
  readonly effect: HttpEffect;
  /** Whose request it is, after authentication: a user or tenant id. Records are never shared across it. */
  readonly scopeFrom: (request: Request) => string | Promise<string>;
  /** Called with each event; keys are masked in it. */
  readonly log?: (event: HttpEvent) => void;
}

/** A store, whose scope, and what kind of effect: the rest has defaults. */
export type HttpOptions<Request> = Foundation<Request> &
  (
    | { readonly store: RecordStore; readonly engine?: never }
    | { readonly engine: Engine; readonly store?: never }
  );

/** The options with every default filled in. */
export interface HttpSettings<Request> {
  readonly engine: Engine;
  readonly effect: HttpEffect;
  readonly scopeFrom: (request: Request) => string | Promise<string>;
  readonly profile: ProfileName;
  /** As the engine gets it: with room for the headers beside the body. */
  readonly policy: Policy;
  /** The longest response body that is kept. */
  readonly maxKeptBytes: number;
  readonly required: boolean;
  readonly methods: ReadonlySet<string>;
  readonly exclude: readonly (string | RegExp)[];
  readonly mode: Mode;
  readonly sampleRate: number;
  readonly keyFrom: ((request: Request) => string | undefined) | null;
  readonly fingerprint: FingerprintRule<Request>;
  readonly keep: ((answer: HttpAnswer, standard: boolean) => boolean) | null;
  readonly streams: 'pass' | 'keep';
  readonly notRetained: 'refuse' | 'rerun';
  readonly maxBodyBytes: number;
  readonly abandonAfterMs: DurationMs;
  readonly probe: Probe | null;
  readonly log: ((event: HttpEvent) => void) | null;
}

const KNOWN = {
  effect: true,
  profile: true,
  policy: true,
  required: true,
  methods: true,
  exclude: true,
  mode: true,
  sampleRate: true,
  keyFrom: true,
  fingerprint: true,
  keep: true,
  streams: true,
  notRetained: true,
  maxBodyBytes: true,
  abandonAfterMs: true,
  probe: true,
  scopeFrom: true,
  log: true,
  store: true,
  engine: true,
} satisfies Record<keyof Foundation<never> | 'store' | 'engine', true>;

/** What frameworks and doors put beside the options that are ours. */
const BESIDE = {
  route: true,
  routes: true,
  onError: true,
  prefix: true,
  logLevel: true,
  logSerializers: true,
  isGlobal: true,
};

const HEAD_ROOM = 64 * KIB;
const NO_STORE = 'store is missing; give a store, or an engine that has one';

export function settleOptions<Request>(options: HttpOptions<Request>): HttpSettings<Request> {
  refuseUnknown('idempotency', options, { ...KNOWN, ...BESIDE });
  refuseUnknownPolicy(options.policy);
  if (typeof options.scopeFrom !== 'function') {
    fail('scopeFrom is missing; give a function that names the caller');
  }
  checkEffect(options.effect);
  const engine = options.engine ?? engineOf(options.store ?? fail(NO_STORE));
  const profile = options.profile ?? 'http';
  if (!(profile in profiles)) {
    fail(`profile is ${JSON.stringify(profile)}; it must be one of ${Object.keys(profiles)}`);
  }
  const chosen = checkPolicy({ ...profiles[profile], ...options.policy });
  // The limit is lowered to what a store of small records can hold, so that the status at least is kept.
  const longest = engine.store.traits.maxRecordBytes - 4 * KIB;
  const maxKeptBytes = Math.max(0, Math.min(chosen.maxOutcomeBytes, longest));
  return {
    engine,
    effect: options.effect,
    scopeFrom: options.scopeFrom,
    profile,
    policy: { ...chosen, maxOutcomeBytes: Math.min(maxKeptBytes + HEAD_ROOM, 64 * MIB) },
    maxKeptBytes,
    required: options.required ?? false,
    methods: methodSet(options.methods ?? ['POST', 'PUT', 'PATCH']),
    exclude: options.exclude ?? [],
    mode: oneOf('mode', options.mode ?? 'enforce', ['off', 'observe', 'enforce']),
    sampleRate: share('sampleRate', options.sampleRate ?? 1),
    keyFrom: options.keyFrom ?? null,
    fingerprint: options.fingerprint ?? 'raw',
    keep: options.keep ?? null,
    streams: oneOf('streams', options.streams ?? 'pass', ['pass', 'keep']),
    notRetained: oneOf('notRetained', options.notRetained ?? 'refuse', ['refuse', 'rerun']),
    maxBodyBytes: bytes('maxBodyBytes', options.maxBodyBytes ?? MIB),
    abandonAfterMs: duration('abandonAfterMs', options.abandonAfterMs ?? 5 * MINUTE),
    probe: options.probe ?? null,
    log: options.log ?? null,
  };
}

const KNOWN_OF_EFFECT = {
  downstream: { kind: true },
  external: { kind: true, onLapse: true },
  transaction: { kind: true, transact: true },
} as const;

function checkEffect(effect: HttpEffect | undefined): void {
  const kinds = ['downstream', 'external', 'transaction'];
  if (effect === undefined || !kinds.includes(effect.kind)) {
    fail(
      'effect is missing; say { kind: "downstream" }, { kind: "external", onLapse: "in_doubt" | "take_over" } ' +
        'or { kind: "transaction", transact }',
    );
  }
  refuseUnknown('effect', effect, KNOWN_OF_EFFECT[effect.kind]);
  if (effect.kind === 'external') {
    oneOf('effect.onLapse', effect.onLapse, ['in_doubt', 'take_over']);
  }
  if (effect.kind === 'transaction' && typeof effect.transact !== 'function') {
    fail('effect.transact is missing; give the function that opens the transaction');
  }
}

function oneOf<T extends string>(name: string, value: T, allowed: readonly T[]): T {
  if (allowed.includes(value)) return value;
  fail(`${name} is ${JSON.stringify(value)}; it must be one of ${allowed.join(', ')}`);
}

function methodSet(methods: readonly string[]): ReadonlySet<string> {
  const odd = methods.find((method) => !/^[A-Z]+$/.test(method));
  if (odd !== undefined) fail(`methods holds "${odd}"; write methods in capitals, such as POST`);
  return new Set(methods);
}

function bytes(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 0) return value;
  fail(`${name} is ${String(value)}; it must be a whole number of bytes, 0 or more`);
}

function share(name: string, value: number): number {
  if (value >= 0 && value <= 1) return value;
  fail(`${name} is ${String(value)}; it must be a number from 0 to 1`);
}

function duration(name: string, value: DurationMs): DurationMs {
  requireDuration(name, value, 0);
  return value;
}

function fail(message: string): never {
  throw new OncewardError('ONCE_INVALID_CONFIG', message);
}
