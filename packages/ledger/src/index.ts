/**
 * A ledger whose every write happens once, in order, and can be proven.
 *
 * ```ts
 * const ledger = await openLedger({ directory: './ledger' });
 * const caller = { actor: 'client:shop', credential: 'ak_shop' } as const;
 * const from = await ledger.createAccount(caller, { category: 'WALLET', asset: 'USD' });
 * ```
 */
export type {
  ChainReport,
  IntegrityReport,
  Progress,
  RecoveredTransaction,
  StateReport,
} from './audit.ts';
export {
  type Block,
  type BlockHeader,
  hashHeader,
  headerText,
  type TransactionProof,
} from './blocks/block.ts';
export type { LedgerCounters } from './counters.ts';
export type {
  AccountEntry,
  AccountPage,
  IdempotencyView,
  StoredTransaction,
  TransactionView,
} from './history.ts';
export type { Ledger, Opening } from './ledger.ts';
export { LIMITS, RECEIPTS_PER_CLIENT } from './limits.ts';
export type { AppendResult, LedgerLog, LogRecord } from './log/ledger-log.ts';
export { type LedgerOptions, openLedger } from './open-ledger.ts';
export type { BatchWriteInput, Caller, WriteInput } from './pipeline/admit.ts';
export type {
  AccountView,
  Entity,
  Scope,
  StateParts,
  VerifiedAccount,
  VerifiedEntity,
} from './reads.ts';
export {
  type Advice,
  type DuplicateLayer,
  REFUSALS,
  type Refusal,
  type RefusalCode,
} from './refusal.ts';
export type { Actor } from './rules/actor.ts';
export type {
  ConditionInput,
  OperationInput,
  Posting,
  Relationship,
  SetEntity,
} from './rules/check-operations.ts';
export type { BalancePolicy, JournalEntry, JournalSide } from './rules/journal.ts';
export {
  DEFAULT_SETTINGS,
  ENVIRONMENT,
  type LedgerSettings,
  settingsFromEnvironment,
} from './settings.ts';
export type { AccountProof } from './state/account-table.ts';
export type { Checkpoint, CheckpointMeta, LedgerHome } from './state/ledger-home.ts';
export type { RowProof } from './state/row-table.ts';
export type { CommittedTransaction, CreateAccountResult, TransactResult } from './transactions.ts';
export type { CreateResult, WriteOptions, WriteResult, WriteSuccess } from './writes.ts';
