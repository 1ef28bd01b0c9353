import type { IncomingMessage } from 'node:http';
import { type Admission, nodeKeyLines, pathOf } from 'onceward/http';
import { Problem } from '../api/problem.ts';
import { assertHost } from '../api/raw-refusals.ts';
import { declaredLength } from './request-body.ts';
import type { Matched, RouteTable } from './route-table.ts';

/** A request that may go on to the upstream. */
export interface Admitted {
  /** Path and query, in origin form. */
  readonly target: string;
  readonly matched: Matched;
  /** `null`: no key is involved, and it passes through. */
  readonly managed: Admission<IncomingMessage> | null;
}

/**
 * Decides on every request before anything of it is forwarded, whichever way it came in: as a request, as one that
 * waits for leave to send its body, or as an upgrade. What is refused here was sent nowhere.
 *
 *   host      said, where the protocol wants it
 *   target    a path of the upstream, and nothing that names another host
 *   spelling  the same rules for every way in which the upstream may read it
 *   key       there where a rule wants one, and well-formed
 */
export function admit(request: IncomingMessage, routes: RouteTable): Admitted {
  assertHost(request);
  const target = request.url ?? '';
  assertTarget(target);
  const matched = routes.match(pathOf(target));
  if (matched.excluded) return { target, matched, managed: null };
  const managed = matched.rules.guard.admit({
    request,
    method: request.method ?? '',
    target,
    route: matched.route,
    contentType: request.headers['content-type'],
    keyLines: nodeKeyLines(request),
    attach: ignoreContext,
  });
  return { target, matched, managed };
}

/** The handler is the upstream, which reads nothing from our request. */
function ignoreContext(): void {}

/** Only `/path?query` is taken: every other form names a host of its own, or could be read as naming one. */
function assertTarget(target: string): void {
  const [first, second] = [target.charCodeAt(0), target.charCodeAt(1)];
  if (first !== SLASH) {
    throw new Problem('invalid-request', 'the request must name a path that begins with /');
  }
  if (second === SLASH || second === BACKSLASH) {
    throw new Problem('invalid-request', 'the path must begin with one / only');
  }
  if (target.includes('#')) {
    throw new Problem('invalid-request', 'the request must not name a fragment; encode # as %23');
  }
}

const SLASH = 47;
const BACKSLASH = 92;

/** Protocols that the connection between client and gateway could change to, which is no matter of the upstream. */
const OF_THIS_CONNECTION = /^\s*(?:h2c?|http\/[\d.]+|tls\/[\d.]+)?\s*$/i;

/**
 * Whether an `Upgrade` is one for the upstream to decide on. A server may ignore any, and the request is then what it
 * is without: Java's client and `curl --http2` offer h2c with every request, bodies and all.
 */
export function wantsUpgrade(request: IncomingMessage): boolean {
  const { method, httpVersion, headers } = request;
  if (method !== 'GET' || httpVersion !== '1.1' || declaredLength(request) !== 0) return false;
  const offers = headers.upgrade?.split(',') ?? [];
  return offers.some((offer) => !OF_THIS_CONNECTION.test(offer));
}
