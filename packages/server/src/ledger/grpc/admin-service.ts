import type { ServiceImpl } from '@connectrpc/connect';
import type { CreateResult, Ledger } from '@onceward/ledger';
import type { AdminService } from '@onceward/ledger/rpc';
import { callerIn, firstSentIn } from './authenticate.ts';
import { rpcErrorOf } from './rpc-error.ts';

export function adminService(ledger: Ledger): ServiceImpl<typeof AdminService> {
  return {
    async createOrganization({ name, idempotencyKey, actor }, context) {
      const input = { name, ...given({ idempotencyKey, actor }), ...firstSentIn(context) };
      const result = await ledger.createOrganization(callerIn(context), input);
      return { organization: idOf(result) };
    },
    async createVault({ organization, name, idempotencyKey, actor }, context) {
      const named = { organization, name, ...given({ idempotencyKey, actor }) };
      const input = { ...named, ...firstSentIn(context) };
      const result = await ledger.createVault(callerIn(context), input);
      return { vault: idOf(result) };
    },
  };
}

interface Optional {
  readonly idempotencyKey: Uint8Array | undefined;
  readonly actor: string | undefined;
}

/** An actor goes along so that the ledger can refuse it. */
function given({ idempotencyKey, actor }: Optional) {
  return {
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(actor === undefined ? {} : { actor }),
  };
}

function idOf(result: CreateResult): string {
  if (!result.ok) throw rpcErrorOf(result);
  return result.id;
}
