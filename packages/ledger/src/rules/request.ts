import type { Actor } from './actor.ts';
import type { ChangeableSettings } from './changeable-settings.ts';
import type { JournalEntry } from './journal.ts';
import type { Operation } from './operation.ts';
import type { SentForm } from './sent-form.ts';

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
  /** Whose keys these are: two credentials never share one. */
  readonly credential: string;
  readonly key: string;
  /** When its caller first sent it, in milliseconds since the epoch, if it said so. */
  readonly first_sent?: number;
  /** How the request was written, where that is not how its entries are kept. */
  readonly sent?: SentForm;
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
  readonly first_sent?: number;
  /** SHA-256 of the operations, in hex. */
  readonly hash: string;
  readonly operations: readonly Operation[];
}

/** A creation may have a key of its caller; then a retry of it creates nothing. */
export interface CreationKey {
  readonly credential?: string;
  readonly key?: string;
  readonly first_sent?: number;
}

export interface AccountRequest extends CreationKey {
  readonly kind: 'account';
  readonly actor: Actor;
  readonly category: string;
  readonly asset: string;
}

export interface OrganizationRequest extends CreationKey {
  readonly kind: 'organization';
  readonly actor: Actor;
  readonly name: string;
}

export interface VaultRequest extends CreationKey {
  readonly kind: 'vault';
  readonly actor: Actor;
  readonly organization: string;
  readonly name: string;
}

/** All of them, so that the entry alone has what holds from then on. */
export interface SettingsRequest {
  readonly kind: 'settings';
  readonly actor: Actor;
  readonly settings: ChangeableSettings;
  /** A raised time to live is noted in the state. Entries of earlier versions lack it, and are applied as they were. */
  readonly notes_raise?: true;
}
