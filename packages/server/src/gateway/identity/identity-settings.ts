import { z } from 'zod';
import { type Kind, list, type Setting, seconds, text } from '../../config/setting.ts';
import { isPlainHttp, parseScopeFrom } from './scope-from.ts';

/** Asymmetric only: with `HS256`, anyone who knows the public key could sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

const scopeFromKind: Kind<string> = {
  expected: 'header:NAME[,NAME], jwt:CLAIM, cookie:NAME or forward-auth:URL',
  schema: z
    .string()
    .max(4_096)
    .refine((value) => parseScopeFrom(value) !== null),
};

const keySetKind: Kind<string> = {
  expected: 'the path of a file, or an http or https URL without a password',
  schema: z
    .string()
    .regex(/^[^\0]{1,4096}$/)
    .refine((value) => !isUrl(value) || (URL.canParse(value) && isPlainHttp(new URL(value)))),
};

export function isUrl(value: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\//i.test(value);
}

const ANY_OF = list(/^[\x21-\x7e]{1,500}$/, 'one or more values, separated by commas');

/** Whose request it is, at the gateway. */
export const identitySettings = {
  scopeFrom: {
    name: 'ONCEWARD_SCOPE_FROM',
    flag: 'scope-from',
    kind: scopeFromKind,
    initial: 'header:authorization,x-api-key',
    about:
      'What says whose request it is: headers, a claim of a verified JWT, a cookie, or an authentication server that is asked each time. Keys of different callers never meet.',
  } as Setting<string>,
  jwks: {
    name: 'ONCEWARD_JWKS',
    flag: 'jwks',
    kind: keySetKind,
    initial: null,
    about: 'The public keys (a JSON Web Key Set) that tokens are verified with, for `jwt:CLAIM`.',
  } as Setting<string | null>,
  jwtIssuer: {
    name: 'ONCEWARD_JWT_ISSUER',
    flag: 'jwt-issuer',
    kind: ANY_OF,
    initial: [],
    about: 'Accepted values of the claim `iss`. Empty: any issuer whose key is in the key set.',
  } as Setting<readonly string[]>,
  jwtAudience: {
    name: 'ONCEWARD_JWT_AUDIENCE',
    flag: 'jwt-audience',
    kind: ANY_OF,
    initial: [],
    about: 'Accepted values of the claim `aud`. Empty: tokens made for other APIs count too.',
  } as Setting<readonly string[]>,
  jwtAlgorithms: {
    name: 'ONCEWARD_JWT_ALGORITHMS',
    flag: 'jwt-algorithms',
    kind: list(
      new RegExp(`^(?:${ALGORITHMS.join('|')})$`),
      `one or more of ${ALGORITHMS.join(', ')}, separated by commas`,
    ),
    initial: ALGORITHMS,
    about: 'Accepted signature algorithms. `none` and the symmetric ones are never accepted.',
  } as Setting<readonly string[]>,
  forwardAuthSubject: {
    name: 'ONCEWARD_FORWARD_AUTH_SUBJECT',
    flag: 'forward-auth-subject',
    kind: text(/^[\w-]{1,64}$/, 'the name of a header'),
    initial: 'x-auth-subject',
    about: 'The header in the answer of `forward-auth:URL` that names the caller.',
  } as Setting<string>,
  forwardAuthTimeoutSeconds: {
    name: 'ONCEWARD_FORWARD_AUTH_TIMEOUT_SECONDS',
    flag: 'forward-auth-timeout',
    kind: seconds(0.05, 60),
    initial: 5,
    about: 'How long `forward-auth:URL` may take to answer.',
  } as Setting<number>,
} as const;

/** The values of these settings, for the gateway or for one of its routes. */
export interface IdentityValues {
  readonly scopeFrom: string;
  readonly jwks: string | null;
  readonly jwtIssuer: readonly string[];
  readonly jwtAudience: readonly string[];
  readonly jwtAlgorithms: readonly string[];
  readonly forwardAuthSubject: string;
  readonly forwardAuthTimeoutSeconds: number;
}

/** What cannot work together, in a sentence; `null` when all is well. */
export function identityContradiction({ scopeFrom, jwks, jwtAlgorithms }: IdentityValues) {
  if (parseScopeFrom(scopeFrom)?.kind !== 'jwt') return null;
  if (jwks === null) {
    return 'ONCEWARD_SCOPE_FROM is jwt:CLAIM, which needs ONCEWARD_JWKS: the file or URL of the public keys';
  }
  if (jwtAlgorithms.length === 0) {
    return 'ONCEWARD_JWT_ALGORITHMS is empty, so that no token could be verified; name one, or leave it out';
  }
  return null;
}
