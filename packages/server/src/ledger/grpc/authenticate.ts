import {
  Code,
  ConnectError,
  type ContextValues,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type Interceptor,
} from '@connectrpc/connect';
import type { Caller } from '@onceward/ledger';
import { AdminService, WriteService } from '@onceward/ledger/rpc';
import { StoreError } from 'onceward';
import { FIRST_SENT_FORM, parseHttpDate } from 'onceward/http';
import type { Logger } from 'pino';
import type { Principal, Role } from '../../credentials/credential.ts';
import type { CredentialStore } from '../../credentials/credential-store.ts';
import type { Source } from '../../credentials/guess-limit.ts';
import { callerOf } from '../caller.ts';
import { CODE_HEADER } from './rpc-error.ts';

const PRINCIPAL = createContextKey<Principal | null>(null);
const SOURCE = createContextKey<Source>({});
const LONGEST = 300;

/** The services that not every credential may use. */
const ROLES: Readonly<Record<string, readonly Role[]>> = {
  [AdminService.typeName]: ['admin'],
  [WriteService.typeName]: ['admin', 'client'],
};

/** Keeps the connection of a request for the check of its credential. */
export function contextOf({ socket }: { readonly socket: Source }): ContextValues {
  return createContextValues().set(SOURCE, socket);
}

/** Refuses calls without a credential, before anything of the body is read. */
export function authenticate(credentials: CredentialStore) {
  return async ({ requestHeader, service, values }: HandlerContext): Promise<void> => {
    const apiKey = requestHeader.get('x-api-key') ?? '';
    const apiSecret = requestHeader.get('x-api-secret') ?? '';
    const isWorthChecking =
      apiKey !== '' && apiSecret !== '' && apiKey.length <= LONGEST && apiSecret.length <= LONGEST;
    const source = values.get(SOURCE);
    const principal = isWorthChecking ? await credentials.verify(apiKey, apiSecret, source) : null;
    if (principal === 'busy') {
      throw new ConnectError(
        'Too many wrong credentials came from this address.',
        Code.ResourceExhausted,
      );
    }
    if (principal === null) throw unauthenticated();
    const allowed = ROLES[service.typeName];
    if (allowed !== undefined && !allowed.includes(principal.role)) {
      const message = `This needs the role ${allowed.join(' or ')}; yours is ${principal.role}.`;
      throw new ConnectError(message, Code.PermissionDenied);
    }
    values.set(PRINCIPAL, principal);
  };
}

export function unauthenticated(): ConnectError {
  const message = 'Send a credential that is known in x-api-key and x-api-secret.';
  return new ConnectError(message, Code.Unauthenticated);
}

/** The bearer that the check has proven. */
export function principalIn({ values }: HandlerContext): Principal {
  const principal = values.get(PRINCIPAL);
  if (principal === null) throw new Error('a call without a credential check');
  return principal;
}

export function callerIn(context: HandlerContext): Caller {
  return callerOf(principalIn(context));
}

/** When a call was first sent, if its client says so: as a member of what the ledger is asked. */
export function firstSentIn({ requestHeader }: HandlerContext): { readonly firstSentAt?: number } {
  const said =
    requestHeader.get('idempotency-first-sent') ?? requestHeader.get('repeatability-first-sent');
  if (said === null) return {};
  const firstSentAt = parseHttpDate(said);
  if (firstSentAt !== null) return { firstSentAt };
  const code = 'FIRST_SENT_INVALID';
  const error = new ConnectError(`${code}: ${FIRST_SENT_FORM}.`, Code.InvalidArgument);
  error.metadata.set(CODE_HEADER, code);
  throw error;
}

/** What goes wrong on this side stays in the log; the caller learns whether anything happened. */
export function hideFaults(log: Logger): Interceptor {
  return (next) => async (request) => {
    try {
      return await next(request);
    } catch (error) {
      if (error instanceof ConnectError) throw error;
      log.error({ err: error, method: request.method.name }, 'ledger_failed');
      if (!(error instanceof StoreError)) {
        throw new ConnectError('The fault is on this side and has been logged.', Code.Internal);
      }
      const known = error.applied === 'no' ? 'Nothing happened.' : 'Whether this happened is open.';
      const advice = 'Send it again with the same key when the ledger is back.';
      throw new ConnectError(`The ledger cannot write now. ${known} ${advice}`, Code.Unavailable);
    }
  };
}
