import type { Caller } from '@onceward/ledger';
import type { Principal } from '../credentials/credential.ts';

/** Who asks, as the ledger writes it down. A request has no say in it. */
export function callerOf({ apiKey }: Principal): Caller {
  return { actor: `client:${apiKey}`, credential: apiKey };
}
