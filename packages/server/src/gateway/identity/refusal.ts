import { type HttpAnswer, PROBLEM_TYPE_PREFIX } from 'onceward/http';
import { maskKey } from 'onceward/keys';

interface Kind {
  readonly status: number;
  readonly retry: 'same_key' | 'never';
  readonly title: string;
}

/** Why a request with a key is not let in. Nothing was run, whichever it is. Names are stable. */
const KINDS = {
  'scope-unknown': {
    status: 400,
    retry: 'never',
    title: 'Whose request it is cannot be told',
  },
  unauthorized: { status: 401, retry: 'same_key', title: 'The credential is not accepted' },
  forbidden: { status: 403, retry: 'never', title: 'The caller may not do this' },
  'identity-unusable': {
    status: 502,
    retry: 'never',
    title: 'The authentication server gave no usable answer',
  },
  'identity-unavailable': {
    status: 503,
    retry: 'same_key',
    title: 'Whose request it is cannot be told at present',
  },
} as const satisfies Record<string, Kind>;

export interface IdentityRefusal {
  readonly name: keyof typeof KINDS;
  readonly detail: string;
  /** Values of WWW-Authenticate. */
  readonly challenges?: readonly string[];
  /** For the operator's log alone. */
  readonly cause?: unknown;
}

export function refusalAnswer(refusal: IdentityRefusal, profile: string, key: string): HttpAnswer {
  const { name, detail, challenges = [] } = refusal;
  const { status, retry, title } = KINDS[name];
  const isSync = profile === 'sync';
  const type = isSync ? 'application/json; charset=utf-8' : 'application/problem+json';
  const headers = ['content-type', type, 'cache-control', 'no-store'];
  headers.push('idempotency-replayed', 'false');
  for (const challenge of challenges) headers.push('www-authenticate', challenge);
  if (status === 503) headers.push('retry-after', '1');
  const happened = 'no';
  const code = name.replaceAll('-', '_').toUpperCase();
  const members = isSync
    ? { error: { code, message: detail, retry, happened } }
    : {
        type: PROBLEM_TYPE_PREFIX + name,
        title,
        status,
        detail,
        key_hint: maskKey(key),
        retry,
        happened,
      };
  return { status, headers, body: Buffer.from(JSON.stringify(members)) };
}
