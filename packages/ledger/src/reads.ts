import type { BlockHeader } from './blocks/block.ts';
import type { BlockBook } from './blocks/block-book.ts';
import { UNKNOWN_ORGANIZATION, UNKNOWN_VAULT } from './pipeline/apply/apply-creation.ts';
import type { ClientRow } from './pipeline/apply/client-row.ts';
import { aliveAt, type EntityRow } from './pipeline/apply/entity-row.ts';
import {
  clientKey,
  entityKey,
  organizationKey,
  relationshipKey,
  vaultKey,
} from './pipeline/apply/row-keys.ts';
import type { Machine } from './pipeline/machine.ts';
import type { Refusal } from './refusal.ts';
import { accountId, accountNumber } from './rules/account-id.ts';
import type { Relationship } from './rules/check-operations.ts';
import type { AccountProof } from './state/account-table.ts';
import { toHex } from './state/merkle-list.ts';
import type { RowProof } from './state/row-table.ts';

export interface Scope {
  readonly organization: string;
  readonly vault?: string | null;
}

export interface Entity {
  readonly value: Uint8Array;
  readonly version: number;
}

export interface AccountView {
  readonly id: string;
  readonly category: string;
  readonly asset: string;
  readonly balance: bigint;
  readonly version: number;
}

/** The other half of the state root: what `onceward/client` needs besides the proof of one half. */
export interface StateParts {
  readonly accountCount: number;
  readonly accounts: string;
  readonly rows: string;
}

export interface VerifiedEntity {
  readonly entity: Entity | undefined;
  /** The row's key and, if it is there, its value, as they stand in the proof's bucket. */
  readonly row: string;
  readonly header: BlockHeader;
  readonly parts: StateParts;
  readonly proof: RowProof;
}

export interface VerifiedAccount {
  readonly account: AccountView;
  readonly number: number;
  readonly header: BlockHeader;
  readonly parts: StateParts;
  readonly proof: AccountProof;
}

/** Reads of the applied state: what they show is durable, and of one moment. */
export class Reads {
  readonly #machine: Machine;
  readonly #book: BlockBook;
  readonly #now: () => number;

  constructor(machine: Machine, book: BlockBook, now: () => number) {
    this.#machine = machine;
    this.#book = book;
    this.#now = now;
  }

  /** `undefined` if there is none or it has expired. */
  entity({ organization, vault = null }: Scope, key: string): Entity | undefined {
    const row = this.#machine.rows.read<EntityRow>(entityKey(organization, vault, key));
    const entity = aliveAt(row, Math.max(this.#machine.time, this.#now()));
    if (entity === undefined) return undefined;
    return { value: Buffer.from(entity.value, 'base64'), version: entity.version };
  }

  hasRelationship({ organization, vault = null }: Scope, parts: Relationship): boolean {
    const { resource, relation, subject } = parts;
    const key = relationshipKey(organization, vault, [resource, relation, subject]);
    return this.#machine.rows.read(key) !== undefined;
  }

  /** Why a scope does not exist, if it does not. */
  findScopeFault({ organization, vault = null }: Scope): Refusal | undefined {
    const { rows } = this.#machine;
    if (rows.read(organizationKey(organization)) === undefined) return UNKNOWN_ORGANIZATION;
    if (vault === null || rows.read(vaultKey(organization, vault)) !== undefined) return undefined;
    return UNKNOWN_VAULT;
  }

  /** 0 for a client that is unknown or was forgotten. */
  clientState({ organization, vault = null }: Scope, client: string): bigint {
    const row = this.#machine.rows.read<ClientRow>(clientKey(organization, vault, client));
    return BigInt(row?.sequence ?? 0);
  }

  verifiedEntity(scope: Scope, key: string): VerifiedEntity {
    const row = entityKey(scope.organization, scope.vault ?? null, key);
    const entity = this.entity(scope, key);
    const proof = this.#machine.rows.prove(row);
    return { entity, row, header: this.#header(), parts: this.#parts(), proof };
  }

  account(id: string): AccountView | undefined {
    const account = this.#machine.accounts.read(accountNumber(id) ?? Number.NaN);
    if (account === undefined) return undefined;
    const { category, asset, balance, version, number } = account;
    return { id: accountId(number), category, asset, balance, version };
  }

  verifiedAccount(id: string): VerifiedAccount | undefined {
    const account = this.account(id);
    const number = accountNumber(id) ?? Number.NaN;
    const proof = this.#machine.accounts.prove(number);
    if (account === undefined || proof === undefined) return undefined;
    return { account, number, header: this.#header(), parts: this.#parts(), proof };
  }

  #header(): BlockHeader {
    const tip = this.#book.tip;
    if (tip === undefined) throw new Error('A ledger that serves has at least one block.');
    return tip.header;
  }

  #parts(): StateParts {
    const { accounts, rows } = this.#machine;
    return { accountCount: accounts.count, accounts: toHex(accounts.top), rows: rows.root };
  }
}
