import { createHash, hash } from 'node:crypto';
import { canonicalBody } from './canonical-body.ts';
import type { RequestFacts } from './request-facts.ts';

/** How requests are compared: byte for byte, as canonical JSON, or by what a hook gives. */
export type FingerprintRule<Request> =
  | 'raw'
  | 'canonical'
  | ((request: Request, body: Uint8Array) => string | Uint8Array);

export type Fingerprint =
  | { readonly ok: true; readonly value: string }
  /** A sentence for the caller: why the body has no canonical form. */
  | { readonly ok: false; readonly reason: string };

/** Where head and body are put side by side: for short ones that is cheaper than a hash fed in pieces. */
const joined = Buffer.allocUnsafeSlow(64 * 1024);
/** Three bytes are the most that UTF-8 needs for one UTF-16 code unit. */
const WIDEST_UNIT = 3;

/**
 * SHA-256 over method, route, target, scope (the head) and body, each with its length before it, so that no two
 * requests run into the same bytes.
 */
export function fingerprint<Request>(
  rule: FingerprintRule<Request>,
  facts: Pick<RequestFacts<Request>, 'request' | 'contentType'>,
  head: Uint8Array,
  body: Uint8Array,
): Fingerprint {
  let asked: string | Uint8Array = body;
  if (typeof rule === 'function') {
    asked = rule(facts.request, body);
  } else if (rule === 'canonical' && isJson(facts.contentType)) {
    const canonical = canonicalBody(body);
    if (!canonical.ok) return canonical;
    asked = canonical.text;
  }
  return { ok: true, value: digest(head, asked) };
}

export function fingerprintHead(
  method: string,
  route: string,
  target: string,
  scope: string,
): Uint8Array {
  return Buffer.from(
    `${method.length}:${method},${route.length}:${route},` +
      `${target.length}:${target},${scope.length}:${scope},`,
  );
}

function digest(head: Uint8Array, asked: string | Uint8Array): string {
  const most = typeof asked === 'string' ? asked.length * WIDEST_UNIT : asked.length;
  if (head.length + most > joined.length) {
    return createHash('sha256').update(head).update(asked).digest('base64url');
  }
  joined.set(head);
  let end = head.length;
  if (typeof asked === 'string') {
    end += joined.write(asked, end);
  } else {
    joined.set(asked, end);
    end += asked.length;
  }
  return hash('sha256', joined.subarray(0, end), 'base64url');
}

function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^[^;]*[/+]json\b/i.test(contentType);
}
