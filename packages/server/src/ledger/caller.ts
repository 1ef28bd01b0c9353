import type { Actor, Caller } from '@onceward/ledger';
import type { Principal } from '../credentials/credential.ts';

/** One for each bearer: a credential that is recalled is always the same object. */
const callers = new WeakMap<Principal, Caller>();

/** Who asks, as the ledger writes it down. A request has no say in it. */
export function callerOf(principal: Principal): Caller {
  let caller = callers.get(principal);
  if (caller === undefined) {
    const { apiKey: credential, actor } = principal;
    caller = { actor: (actor as Actor | undefined) ?? `client:${credential}`, credential };
    callers.set(principal, caller);
  }
  return caller;
}
