import type { IncomingMessage } from 'node:http';
import { Pool } from 'undici';
import { requestHeaders } from '../forwarded-headers.ts';
import { type Identity, type IdentitySource, known, refused } from './identity-source.ts';

export interface ForwardAuthOptions {
  readonly url: URL;
  /** The header of its answer that names the caller, in lower case. */
  readonly subjectHeader: string;
  readonly timeoutMs: number;
}

/** What the authentication server gets of a request: its credentials, and where it came from. */
const SENT = new Set([
  'authorization',
  'cookie',
  'x-api-key',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
]);

const CONNECTIONS = 64;

/**
 * Asks an authentication server before every request with a key, and so before every replay, as Traefik's ForwardAuth
 * and nginx's auth_request do. Its 2xx with a subject lets the request go on; nothing else does.
 */
export class ForwardAuthSource implements IdentitySource {
  readonly #options: ForwardAuthOptions;
  readonly #pool: Pool;

  constructor(options: ForwardAuthOptions) {
    this.#options = options;
    this.#pool = new Pool(options.url.origin, { connections: CONNECTIONS });
  }

  async identify(request: IncomingMessage): Promise<Identity> {
    const { url, timeoutMs } = this.#options;
    try {
      const { statusCode, headers, body } = await this.#pool.request({
        method: 'GET',
        path: url.pathname + url.search,
        headers: headersFor(request),
        signal: AbortSignal.timeout(timeoutMs),
      });
      // What it wrote beside the headers is of no interest, and the connection is used again.
      void body.dump().catch(() => {});
      return this.#judge(statusCode, headers);
    } catch (cause) {
      return unavailable('the authentication server did not answer', cause);
    }
  }

  #judge(status: number, headers: Readonly<Record<string, string | string[] | undefined>>) {
    const { url, subjectHeader } = this.#options;
    const challenges = [headers['www-authenticate'] ?? []].flat();
    if (status === 401) {
      const detail = 'the authentication server does not accept the credential';
      return refused({ name: 'unauthorized', detail, challenges });
    }
    if (status === 403) {
      const detail = 'the authentication server forbids this request';
      return refused({ name: 'forbidden', detail, challenges });
    }
    if (status >= 500) {
      return unavailable('the authentication server failed', `it answered with status ${status}`);
    }
    const subject = headers[subjectHeader];
    if (status >= 200 && status < 300 && typeof subject === 'string' && subject !== '') {
      return known('forward-auth', url.href, [subject]);
    }
    const detail =
      `the authentication server answered with status ${status} and ` +
      `${subject === undefined ? 'no' : 'an unusable'} ${subjectHeader} header, ` +
      'which ONCEWARD_FORWARD_AUTH_SUBJECT names';
    return refused({ name: 'identity-unusable', detail });
  }
}

function headersFor(request: IncomingMessage): string[] {
  const all = requestHeaders(request, null);
  const sent = ['x-forwarded-method', request.method ?? '', 'x-forwarded-uri', request.url ?? ''];
  for (let i = 0; i < all.length; i += 2) {
    const name = all[i]!.toLowerCase();
    if (SENT.has(name)) sent.push(name, all[i + 1]!);
  }
  return sent;
}

function unavailable(what: string, cause: unknown): Identity {
  const detail = `${what}, so nothing was run; retry with the same key`;
  return refused({ name: 'identity-unavailable', detail, cause });
}
