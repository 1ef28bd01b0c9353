import { hash } from 'node:crypto';
import { type Refusal, refuse } from '../../refusal.ts';
import { accountId } from '../../rules/account-id.ts';
import type { AccountRequest, OrganizationRequest, VaultRequest } from '../../rules/request.ts';
import { KEY_EXPIRED, mayBeForgotten } from '../first-sent.ts';
import type { Machine } from '../machine.ts';
import type { Outcome } from '../outcome.ts';
import { addReceipt, findReceipt, printOf } from './receipt.ts';
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
  const known = findCreation(machine, request);
  if (known !== undefined) return known;
  if (mayBeForgotten(machine, 'writes', request.first_sent)) {
    return { did: 'refuse', refusal: KEY_EXPIRED };
  }
  const position = texts.length;
  const created = create(machine, request, position);
  if (typeof created !== 'string') return { did: 'refuse', refusal: created };
  remember(machine, request, position);
  const result = `"status":"committed","created":"${created}"`;
  texts.push(transactionText(machine.height, position, requestText, result));
  return { did: 'create', position, id: created };
}

/** What was created under the request's key; a refusal if that was something else. */
export function findCreation(machine: Machine, request: CreationRequest): Outcome | undefined {
  if (request.key === undefined) return undefined;
  const receipt = findReceipt(machine, scopeOf(request), request.key);
  if (receipt === undefined) return undefined;
  if (receipt.print !== printOf({ hash: hashOf(request) })) {
    return { did: 'refuse', refusal: KEY_REUSED };
  }
  const { sequence, height, position, at } = receipt;
  if (request.kind === 'account') return { did: 'recall', id: accountId(Number(sequence)), at };
  return { did: 'recall', id: idAt(request.kind, height, position), at };
}

/** The receipt of an account has its number where that of a write has its sequence. */
function remember(machine: Machine, request: CreationRequest, position: number): void {
  if (request.key === undefined) return;
  const number = request.kind === 'account' ? machine.accounts.count - 1 : 0;
  const creation = { key: request.key, hash: hashOf(request) };
  addReceipt(machine, scopeOf(request), creation, { sequence: BigInt(number), position });
}

/** Rows of clients begin otherwise, so nothing of theirs is ever met. */
function scopeOf({ kind, credential }: CreationRequest): string {
  return `create/${kind}/${credential}`;
}

function hashOf({
  actor: _actor,
  credential: _credential,
  key: _key,
  first_sent: _firstSent,
  ...what
}: CreationRequest) {
  return hash('sha256', JSON.stringify(what), 'hex');
}

function idAt(kind: 'organization' | 'vault', height: number, position: number): string {
  return `${kind === 'vault' ? 'vault' : 'org'}_${height}_${position}`;
}

function create(machine: Machine, request: CreationRequest, position: number): string | Refusal {
  switch (request.kind) {
    case 'account':
      return accountId(machine.accounts.add(request.category, request.asset));
    case 'organization': {
      const id = idAt('organization', machine.height, position);
      machine.rows.write(organizationKey(id), { name: request.name });
      return id;
    }
    case 'vault': {
      if (machine.rows.read(organizationKey(request.organization)) === undefined) {
        return UNKNOWN_ORGANIZATION;
      }
      const id = idAt('vault', machine.height, position);
      machine.rows.write(vaultKey(request.organization, id), { name: request.name });
      return id;
    }
  }
}

export const UNKNOWN_ORGANIZATION = refuse(
  'ORGANIZATION_NOT_FOUND',
  'There is no such organization.',
);

const KEY_REUSED = refuse(
  'IDEMPOTENCY_KEY_REUSED',
  'This idempotency key was used to create something else. A new creation needs a new key.',
);

export const UNKNOWN_VAULT = refuse('VAULT_NOT_FOUND', 'The organization has no such vault.');
