import type { Refusal } from '../refusal.ts';

/**
 * What applying did with one request. All that have a `position` have left a transaction there in the block; a
 * rejected one has changed nothing but that its key is used.
 */
export type Outcome =
  | { readonly did: 'post'; readonly position: number }
  | { readonly did: 'reject'; readonly position: number; readonly refusal: Refusal }
  | { readonly did: 'write'; readonly position: number; readonly sequence: bigint }
  | { readonly did: 'create'; readonly position: number; readonly id: string }
  /** It was created before, at this log time, under the same key. */
  | { readonly did: 'recall'; readonly id: string; readonly at: number }
  | { readonly did: 'change'; readonly position: number }
  | { readonly did: 'refuse'; readonly refusal: Refusal };

/**
 * The outcome of one journal entry: its number, then balance and previous entry of the debited and credited
 * account.
 */
export type Effect = readonly [
  entry: number,
  debitBalance: string,
  debitPrevious: string,
  creditBalance: string,
  creditPrevious: string,
];

/** As JSON. Digits, signs and dots need no escaping. */
export function effectsText(effects: readonly Effect[]): string {
  let text = '';
  for (const [entry, debitBalance, debitPrevious, creditBalance, creditPrevious] of effects) {
    if (text !== '') text += ',';
    text += `[${entry},"${debitBalance}","${debitPrevious}","${creditBalance}","${creditPrevious}"]`;
  }
  return `[${text}]`;
}

export interface Applied {
  readonly height: number;
  readonly at: number;
  /** One for each request, in order. */
  readonly outcomes: readonly Outcome[];
  /** The transactions of the block, as JSON texts, by position. */
  readonly texts: readonly string[];
}
