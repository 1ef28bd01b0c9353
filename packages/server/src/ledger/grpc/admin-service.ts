import type { ServiceImpl } from '@connectrpc/connect';
import type { CreateResult, Ledger } from '@onceward/ledger';
import type { AdminService } from '@onceward/ledger/rpc';
import { callerIn } from './authenticate.ts';
import { rpcErrorOf } from './rpc-error.ts';

export function adminService(ledger: Ledger): ServiceImpl<typeof AdminService> {
  return {
    async createOrganization({ name, actor }, context) {
      const input = { name, ...(actor === undefined ? {} : { actor }) };
      const result = await ledger.createOrganization(callerIn(context), input);
      return { organization: idOf(result) };
    },
    async createVault({ organization, name, actor }, context) {
      const input = { organization, name, ...(actor === undefined ? {} : { actor }) };
      const result = await ledger.createVault(callerIn(context), input);
      return { vault: idOf(result) };
    },
  };
}

function idOf(result: CreateResult): string {
  if (!result.ok) throw rpcErrorOf(result);
  return result.id;
}
