import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { IdentityRefusal } from './refusal.ts';

/** Who sent a request, according to one source. */
export type Identity =
  | { readonly kind: 'known'; readonly scope: string }
  /** The request has nothing of what the source reads. */
  | { readonly kind: 'absent' }
  /** It brings a credential that does not hold, or the source could not be reached. */
  | { readonly kind: 'refused'; readonly refusal: IdentityRefusal };

/** One way to identify the caller. It is called once for each request with a key, replays included. */
export interface IdentitySource {
  identify(request: IncomingMessage): Identity | Promise<Identity>;
}

export const ABSENT: Identity = { kind: 'absent' };

const DIGITS = 32;

/**
 * The scope of an identity: a digest, so that no credential is kept. The kind of the source and the issuer of
 * the subject are part of it, so that the same name from two sources makes two scopes.
 */
export function known(kind: string, issuer: string, subject: readonly unknown[]): Identity {
  const material = JSON.stringify([kind, issuer, ...subject]);
  return { kind: 'known', scope: hash('sha256', material, 'hex').slice(0, DIGITS) };
}

export function refused(refusal: IdentityRefusal): Identity {
  return { kind: 'refused', refusal };
}

/** Every line of a header, in order. Node's own table drops or joins repeated ones. */
export function headerLines(request: IncomingMessage, name: string): string[] {
  const { headers, rawHeaders } = request;
  if (headers[name] === undefined) return [];
  const lines: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === name) lines.push(rawHeaders[i + 1] ?? '');
  }
  return lines;
}
