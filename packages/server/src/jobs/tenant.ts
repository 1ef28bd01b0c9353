import type { FastifyReply, FastifyRequest } from 'fastify';
import { roleCheck } from '../api/credential-check.ts';
import type { LocalAccess } from '../api/local-access.ts';
import { Problem } from '../api/problem.ts';
import type { Role } from '../credentials/credential.ts';
import type { CredentialStore } from '../credentials/credential-store.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whose jobs the request is about; set where jobs are served. */
    jobTenant?: string;
  }
}

const TENANT = /^[\w.@-]{1,64}$/;
const NO_ONE_IN_PARTICULAR = 'default';

/**
 * A credential says whose jobs they are. Callers on this machine need none: they name the tenant in `X-Tenant`, as the
 * admin does, or get the one that is nobody's in particular.
 */
export function requireTenant(
  credentials: CredentialStore,
  local: LocalAccess,
  roles: readonly Role[],
) {
  const check = roleCheck(credentials, roles);
  return (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => {
    const isBearer = request.headers['x-api-key'] !== undefined;
    const found = isBearer ? check(request) : needsCredential(local(request));
    if (found instanceof Promise) {
      found.then((refusal) => done(refusal ?? settleTenant(request)), done);
    } else {
      done(found ?? settleTenant(request));
    }
  };
}

/** Unlike the demo, jobs are for others too, if they bring a credential. */
function needsCredential(refusal: Problem | undefined): Problem | undefined {
  if (refusal === undefined) return undefined;
  const advice = 'send a credential in X-Api-Key and X-Api-Secret';
  return new Problem('unauthorized', `${advice}: ${refusal.message}`);
}

/** Why the tenant that the request names cannot be one, if it cannot. */
function settleTenant(request: FastifyRequest): Problem | undefined {
  const owner = request.principal?.tenant ?? null;
  const named = owner ?? request.headers['x-tenant'] ?? '';
  if (owner === null && named !== '' && (typeof named !== 'string' || !TENANT.test(named))) {
    const detail = 'X-Tenant holds 1 to 64 letters, digits and any of _ . @ -';
    return new Problem('invalid-request', detail);
  }
  request.jobTenant = named === '' ? NO_ONE_IN_PARTICULAR : String(named);
  return undefined;
}

export function tenantOf(request: FastifyRequest): string {
  if (request.jobTenant === undefined) throw new Error('a route of jobs without a tenant');
  return request.jobTenant;
}
