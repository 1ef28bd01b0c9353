import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Principal, Role } from '../credentials/credential.ts';
import type { CredentialStore, Verification } from '../credentials/credential-store.ts';
import { Problem } from './problem.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the credential check; absent where none runs. */
    principal?: Principal;
  }
}

const LONGEST = 300;

/**
 * A hook that lets only bearers of these roles pass, before anything of the body is read. A credential that was found
 * right before lets its request go on within the same turn.
 */
export function requireRole(credentials: CredentialStore, roles: readonly Role[]) {
  const check = roleCheck(credentials, roles);
  return (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => {
    const found = check(request);
    if (found instanceof Promise) found.then(done, done);
    else done(found);
  };
}

/** The same for hooks with more to decide: why the request may not pass, if it may not. */
export function roleCheck(credentials: CredentialStore, roles: readonly Role[]) {
  return (request: FastifyRequest): Problem | undefined | Promise<Problem | undefined> => {
    const apiKey = request.headers['x-api-key'];
    const apiSecret = request.headers['x-api-secret'];
    if (typeof apiKey !== 'string' || typeof apiSecret !== 'string') {
      return new Problem('unauthorized', 'send a credential in X-Api-Key and X-Api-Secret');
    }
    if (apiKey.length > LONGEST || apiSecret.length > LONGEST) return admit(request, null, roles);
    const { socket } = request;
    const recalled = credentials.recall(apiKey, apiSecret, socket);
    if (recalled !== null) return admit(request, recalled, roles);
    return credentials
      .verify(apiKey, apiSecret, socket)
      .then((principal) => admit(request, principal, roles));
  };
}

function admit(
  request: FastifyRequest,
  principal: Verification,
  roles: readonly Role[],
): Problem | undefined {
  if (principal === 'busy') {
    const detail = 'too many wrong credentials came from this address; try again in a moment';
    return new Problem('busy', detail, { retryAfterSeconds: 1 });
  }
  if (principal === null) {
    return new Problem('unauthorized', 'the credential is not known, or its secret is wrong');
  }
  if (!roles.includes(principal.role)) {
    const wanted = roles.join(' or ');
    return new Problem('forbidden', `this needs the role ${wanted}; yours is ${principal.role}`);
  }
  request.principal = principal;
  return undefined;
}

/** The bearer that the check has proven. */
export function principalOf(request: FastifyRequest): Principal {
  if (request.principal === undefined) throw new Error('a route without a credential check');
  return request.principal;
}
