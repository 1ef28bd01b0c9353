import type { Actor } from './actor.ts';
import type { ChangeableSettings } from './changeable-settings.ts';
import type { JournalEntry } from './journal.ts';
import type { Operation } from './operation.ts';

/** What the log holds: checked, complete, and plain data whose JSON text is always the same. */
export type Request =
  | JournalRequest
  | WriteRequest
  | AccountRequest
  | OrganizationRequest
  | VaultRequest
  | SettingsRequest;

export interface JournalRequest {
  readonly kind: 'journal';
  readonly actor: Actor;
  /** Whose keys these are: two credentials never meet each other's. */
  readonly credential: string;
  readonly key: string;
  readonly entries: readonly JournalEntry[];
}

export interface WriteRequest {
  readonly kind: 'write';
  readonly actor: Actor;
  readonly organization: string;
  /** `null` is the organization's own scope. */
  readonly vault: string | null;
  readonly client: string;
  /** A u64 in decimal; `null` lets the ledger assign the next one. */
  readonly sequence: string | null;
  /** A UUID of version 4, as 32 hexadecimal digits. */
  readonly key: string;
  /** SHA-256 of the operations, in hex. */
  readonly hash: string;
  readonly operations: readonly Operation[];
}

export interface AccountRequest {
  readonly kind: 'account';
  readonly actor: Actor;
  readonly category: string;
  readonly asset: string;
}

export interface OrganizationRequest {
  readonly kind: 'organization';
  readonly actor: Actor;
  readonly name: string;
}

export interface VaultRequest {
  readonly kind: 'vault';
  readonly actor: Actor;
  readonly organization: string;
  readonly name: string;
}

/** All of them, so that the entry tells by itself what holds from then on. */
export interface SettingsRequest {
  readonly kind: 'settings';
  readonly actor: Actor;
  readonly settings: ChangeableSettings;
}
