import { type Refusal, refuse } from '../refusal.ts';
import { accountId } from '../rules/account-id.ts';
import type { AccountRequest, OrganizationRequest, VaultRequest } from '../rules/request.ts';
import type { Machine } from './machine.ts';
import type { Outcome } from './outcome.ts';
import { organizationKey, vaultKey } from './row-keys.ts';
import { transactionText } from './transaction-text.ts';

type CreationRequest = AccountRequest | OrganizationRequest | VaultRequest;

/**
 * Accounts, organizations and vaults get their ids from where they are created, so every replica gives the same
 * ones.
 */
export function applyCreation(
  machine: Machine,
  request: CreationRequest,
  requestText: string,
  texts: string[],
): Outcome {
  const position = texts.length;
  const created = create(machine, request, position);
  if (typeof created !== 'string') return { did: 'refuse', refusal: created };
  const result = `"status":"committed","created":"${created}"`;
  texts.push(transactionText(machine.height, position, requestText, result));
  return { did: 'create', position, id: created };
}

function create(machine: Machine, request: CreationRequest, position: number): string | Refusal {
  const place = `${machine.height}_${position}`;
  switch (request.kind) {
    case 'account':
      return accountId(machine.accounts.add(request.category, request.asset));
    case 'organization': {
      const id = `org_${place}`;
      machine.rows.write(organizationKey(id), { name: request.name });
      return id;
    }
    case 'vault': {
      if (machine.rows.read(organizationKey(request.organization)) === undefined) {
        return UNKNOWN_ORGANIZATION;
      }
      const id = `vault_${place}`;
      machine.rows.write(vaultKey(request.organization, id), { name: request.name });
      return id;
    }
  }
}

export const UNKNOWN_ORGANIZATION = refuse(
  'ORGANIZATION_NOT_FOUND',
  'There is no such organization.',
);

export const UNKNOWN_VAULT = refuse('VAULT_NOT_FOUND', 'The organization has no such vault.');
