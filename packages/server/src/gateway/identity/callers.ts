import type { IncomingMessage } from 'node:http';
import type { ProfileName } from 'onceward';
import { type Admission, type HttpAnswer, HttpEvent, type Mode } from 'onceward/http';
import type { Logger } from 'pino';
import type { Identity, IdentitySource } from './identity-source.ts';
import { type IdentityRefusal, refusalAnswer } from './refusal.ts';

export interface CallersOptions {
  readonly source: IdentitySource;
  readonly mode: Mode;
  readonly profile: ProfileName;
  readonly emit: (event: HttpEvent) => void;
  readonly log: Logger;
}

/** The scope of requests that bring no credential at all. */
const ANONYMOUS = 'anonymous';

/** On the request itself: a WeakMap beside it costs the GC more than the request's own fields do. */
const SCOPE = Symbol('scope');
type Identified = IncomingMessage & { [SCOPE]?: string };

/** Headers that identify callers, and how the setting names each. */
const CREDENTIALS = {
  cookie: 'cookie:NAME',
  authorization: 'header:authorization',
  'x-api-key': 'header:x-api-key',
} as const;

/**
 * Identifies the caller before the body is read and before anything is forwarded. Only requests with a key are
 * checked: all others keep no record that another caller could be given.
 */
export class Callers {
  readonly #options: CallersOptions;

  constructor(options: CallersOptions) {
    this.#options = options;
  }

  /** The answer to refuse with; `null` when the request may go on. Mode `observe` refuses none. */
  async refuse(admission: Admission<IncomingMessage>): Promise<HttpAnswer | null> {
    const { mode, profile } = this.#options;
    if (mode !== 'enforce') return null;
    const { request } = admission.facts;
    const identity = await this.#identify(request);
    if (identity.kind === 'known') {
      (request as Identified)[SCOPE] = identity.scope;
      return null;
    }
    const answer = refusalAnswer(identity.refusal, profile, admission.key);
    this.#note(admission, identity.refusal, answer.status);
    return answer;
  }

  /** For the guard. In mode `observe` it was not called before, and a refusal is thrown as an error. */
  scopeFrom(request: IncomingMessage): string | Promise<string> {
    return (request as Identified)[SCOPE] ?? this.#scopeOrThrow(request);
  }

  async #scopeOrThrow(request: IncomingMessage): Promise<string> {
    const identity = await this.#identify(request);
    if (identity.kind === 'known') return identity.scope;
    throw new Error(identity.refusal.detail, { cause: identity.refusal.cause });
  }

  async #identify(request: IncomingMessage): Promise<Exclude<Identity, { kind: 'absent' }>> {
    const identity = await this.#options.source.identify(request);
    if (identity.kind !== 'absent') return identity;
    const refusal = unnamedCredential(request);
    return refusal === null ? { kind: 'known', scope: ANONYMOUS } : { kind: 'refused', refusal };
  }

  #note(
    { facts, key, arrivedAt }: Admission<IncomingMessage>,
    { detail, cause }: IdentityRefusal,
    status: number,
  ): void {
    const { emit, log } = this.#options;
    const { method, route } = facts;
    const elapsedMs = performance.now() - arrivedAt;
    const principal = undefined;
    const seen = { method, route, status, mode: 'enforce', elapsedMs, key, principal } as const;
    emit(new HttpEvent('idempotency_request_refused', seen));
    if (status >= 500) log.warn({ err: cause ?? detail }, 'no identity could be had');
  }
}

/** Such callers must not share a scope: one would be given the answers of another. */
function unnamedCredential(request: IncomingMessage): IdentityRefusal | null {
  for (const [name, setting] of Object.entries(CREDENTIALS)) {
    if ((request.headers[name] ?? '') === '') continue;
    const detail =
      `the request has a key, and a ${name} header that does not say here whose request it is; ` +
      `ONCEWARD_SCOPE_FROM of the gateway must name what does, for instance ${setting}`;
    return { name: 'scope-unknown', detail };
  }
  return null;
}
