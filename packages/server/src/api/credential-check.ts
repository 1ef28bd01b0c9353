import type { FastifyRequest } from 'fastify';
import type { Principal, Role } from '../credentials/credential.ts';
import type { CredentialStore } from '../credentials/credential-store.ts';
import { Problem } from './problem.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the credential check; absent where none runs. */
    principal?: Principal;
  }
}

const LONGEST = 300;

/** A hook that lets only bearers of these roles pass, before anything of the body is read. */
export function requireRole(credentials: CredentialStore, roles: readonly Role[]) {
  return async (request: FastifyRequest): Promise<void> => {
    const apiKey = request.headers['x-api-key'];
    const apiSecret = request.headers['x-api-secret'];
    if (typeof apiKey !== 'string' || typeof apiSecret !== 'string') {
      throw new Problem('unauthorized', 'send a credential in X-Api-Key and X-Api-Secret');
    }
    const tooLong = apiKey.length > LONGEST || apiSecret.length > LONGEST;
    const principal = tooLong ? null : await credentials.verify(apiKey, apiSecret);
    if (principal === 'busy') {
      const detail = 'too many credentials are being checked; try again';
      throw new Problem('busy', detail, { retryAfterSeconds: 1 });
    }
    if (principal === null) {
      throw new Problem('unauthorized', 'the credential is not known, or its secret is wrong');
    }
    if (!roles.includes(principal.role)) {
      const wanted = roles.join(' or ');
      throw new Problem('forbidden', `this needs the role ${wanted}; yours is ${principal.role}`);
    }
    request.principal = principal;
  };
}

/** The bearer that the check has proven. */
export function principalOf(request: FastifyRequest): Principal {
  if (request.principal === undefined) throw new Error('a route without a credential check');
  return request.principal;
}
