import { hash } from 'node:crypto';
import { OncewardError } from '../engine/errors.ts';
import { LIMITS } from '../engine/input.ts';
import { NO_BYTES } from './answer.ts';
import { fingerprintHead } from './request/fingerprint.ts';

const PRINTABLE = /^[\x20-\x7e]*$/;
/** Letters and what ids are mostly made of: nothing that would have to be escaped. */
const PLAIN = /^[\w.:@/-]+$/;

/**
 * Whose operation, and on which route: `principal|METHOD /route`. The bar is escaped in the principal, so that no
 * principal can be spelled as another's scope. What is too long or not plain text is hashed.
 */
export function composeScope(principal: unknown, method: string, route: string): string {
  if (typeof principal !== 'string' || principal === '') {
    throw new OncewardError(
      'ONCE_INVALID_INPUT',
      'scopeFrom gave no scope; return a name for the caller, such as the user or tenant id',
    );
  }
  const whose = PLAIN.test(principal) ? principal : principal.replace(/[|%~]/g, escapeBar);
  const scope = `${whose}|${method} ${route}`;
  if (scope.length <= LIMITS.scope && PRINTABLE.test(scope)) return scope;
  return `${fitTo(whose, 160)}|${method} ${fitTo(route, 300)}`;
}

/** Principals remembered for all routes together. */
const REMEMBERED = 10_000;
/** The longest target that is remembered with one of them. */
const LONGEST_REMEMBERED = 256;

/** What requests of one principal to one route have in common. */
export class ComposedScope {
  readonly method: string;
  readonly route: string;
  readonly scope: string;
  #target: string | null = null;
  #head: Uint8Array = NO_BYTES;

  constructor(method: string, route: string, scope: string) {
    this.method = method;
    this.route = route;
    this.scope = scope;
  }

  /** The head of the fingerprint. The target is mostly that of the request before. */
  headOf(target: string): Uint8Array {
    if (this.#target === target) return this.#head;
    const head = fingerprintHead(this.method, this.route, target, this.scope);
    if (target.length > LONGEST_REMEMBERED) return head;
    this.#target = target;
    this.#head = head;
    return head;
  }
}

/**
 * Caches composed scopes. A string that was a map key before has its hash cached; a new equal one is hashed again, and
 * the engine and its store look a scope up several times for each request.
 */
export class ScopeMemory {
  readonly #routes = new Map<string, Map<string, ComposedScope>>();
  #count = 0;

  compose(principal: unknown, method: string, route: string): ComposedScope {
    const known = this.#routes.get(route)?.get(principal as string);
    if (known?.method === method) return known;
    const composed = new ComposedScope(method, route, composeScope(principal, method, route));
    if (known === undefined) this.#remember(principal as string, route, composed);
    return composed;
  }

  #remember(principal: string, route: string, composed: ComposedScope): void {
    if (this.#count === REMEMBERED) {
      this.#routes.clear();
      this.#count = 0;
    }
    const principals = this.#routes.get(route) ?? new Map<string, ComposedScope>();
    this.#routes.set(route, principals.set(principal, composed));
    this.#count += 1;
  }
}

function escapeBar(character: string): string {
  return `%${character.charCodeAt(0).toString(16)}`;
}

function fitTo(text: string, longest: number): string {
  if (text.length <= longest && PRINTABLE.test(text)) return text;
  // As UTF-16, since UTF-8 has one spelling for all lone surrogates.
  return `~${hash('sha256', Buffer.from(text, 'utf16le'), 'hex')}`;
}
