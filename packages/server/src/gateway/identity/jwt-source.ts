import type { IncomingMessage } from 'node:http';
import {
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
} from 'jose';
import type { IdentityValues } from './identity-settings.ts';
import {
  ABSENT,
  headerLines,
  type Identity,
  type IdentitySource,
  known,
  refused,
} from './identity-source.ts';

/** How far the clocks of issuer and gateway may be apart. */
const CLOCK_TOLERANCE_SECONDS = 5;
const BEARER = /^Bearer +([\w.~+/-]+=*) *$/i;
const CHALLENGE = 'Bearer error="invalid_token"';

/** What is wrong with the token, by jose's code. Any other failure is one of the key set. */
const BAD_TOKEN: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: 'the token has expired',
  ERR_JWT_CLAIM_VALIDATION_FAILED: 'a claim of the token is not what is accepted here',
  ERR_JWT_INVALID: 'the token is not a valid JWT',
  ERR_JWS_INVALID: 'the token is not a valid JWT',
  ERR_JOSE_ALG_NOT_ALLOWED: 'the token is signed with an algorithm that is not accepted here',
  ERR_JOSE_NOT_SUPPORTED: 'the token uses a feature that is not supported here',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'the signature of the token cannot be verified',
  ERR_JWKS_NO_MATCHING_KEY: 'the token is signed with a key that is not in the key set',
};

/** A claim of the bearer token, which is verified each time: an unverified claim proves nothing. */
export class JwtSource implements IdentitySource {
  readonly #claim: string;
  readonly #keys: JWTVerifyGetKey;
  readonly #options: JWTVerifyOptions;

  constructor(claim: string, keys: JWTVerifyGetKey, values: IdentityValues) {
    const { jwtIssuer, jwtAudience, jwtAlgorithms } = values;
    this.#claim = claim;
    this.#keys = keys;
    this.#options = {
      algorithms: [...jwtAlgorithms],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      ...(jwtIssuer.length === 0 ? {} : { issuer: [...jwtIssuer] }),
      ...(jwtAudience.length === 0 ? {} : { audience: [...jwtAudience] }),
    };
  }

  async identify(request: IncomingMessage): Promise<Identity> {
    const lines = headerLines(request, 'authorization').filter((line) => line !== '');
    if (lines.length === 0) return ABSENT;
    if (lines.length > 1) return badToken('the Authorization header came more than once');
    const token = BEARER.exec(lines[0] ?? '')?.[1];
    if (token === undefined) return badToken('the Authorization header holds no bearer token');
    try {
      return this.#subjectOf(await this.#verify(token));
    } catch (error) {
      const why = error instanceof errors.JOSEError ? BAD_TOKEN[error.code] : undefined;
      if (why !== undefined) return badToken(why);
      const detail = 'the keys to verify the token with cannot be had; retry with the same key';
      return refused({ name: 'identity-unavailable', detail, cause: error });
    }
  }

  /** A token that names no key may fit several of the set; it is good if one of them verifies it. */
  async #verify(token: string): Promise<JWTPayload> {
    try {
      return (await jwtVerify(token, this.#keys, this.#options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      for await (const key of error) {
        try {
          return (await jwtVerify(token, key, this.#options)).payload;
        } catch (failure) {
          if (!(failure instanceof errors.JWSSignatureVerificationFailed)) throw failure;
        }
      }
      throw new errors.JWSSignatureVerificationFailed();
    }
  }

  #subjectOf(payload: JWTPayload): Identity {
    const subject = Object.hasOwn(payload, this.#claim) ? payload[this.#claim] : undefined;
    if ((typeof subject === 'string' && subject !== '') || Number.isSafeInteger(subject)) {
      return known('jwt', payload.iss ?? '', [this.#claim, subject]);
    }
    return badToken(`the token has no claim ${this.#claim} that is a text or a whole number`);
  }
}

function badToken(why: string): Identity {
  const detail = `${why}; retry with the same key and a valid token`;
  return refused({ name: 'unauthorized', detail, challenges: [CHALLENGE] });
}
