import type { JournalSide } from './journal.ts';

/** What must hold of an entity before it is set or deleted. */
export type Condition =
  | { readonly not_exists: true }
  | { readonly must_exist: true }
  | { readonly version: number }
  /** Base64 of the value. */
  | { readonly value_equals: string };

/** One change, in the form that is hashed, logged and kept. Values are base64. */
export type Operation =
  | {
      readonly op: 'set';
      readonly key: string;
      readonly value: string;
      readonly condition?: Condition;
      /** Milliseconds since the epoch, by the ledger's own time. */
      readonly expires_at?: number;
    }
  | { readonly op: 'delete'; readonly key: string; readonly condition?: Condition }
  | {
      readonly op: 'relate' | 'unrelate';
      readonly resource: string;
      readonly relation: string;
      readonly subject: string;
    }
  | {
      readonly op: 'post';
      readonly asset: string;
      readonly amount: string;
      readonly debit: JournalSide;
      readonly credit: JournalSide;
    };
