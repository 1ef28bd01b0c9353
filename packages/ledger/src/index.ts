/**
 * A ledger whose every write happens once, in order, and can be proven.
 *
 * ```ts
 * const ledger = await openLedger({ directory: './ledger', ...settingsFromEnvironment(process.env) });
 * const caller = { actor: 'client:shop', credential: 'ak_shop' } as const;
 * const from = await ledger.createAccount(caller, { category: 'WALLET', asset: 'USD' });
 * ```
 *
 * For those who put a door on it:
 *
 * - A door authenticates and makes the `Caller`: `actor` for the record, `credential` (the public half) for the
 *   scope of idempotency keys. A request that brings an `actor` of its own is refused here.
 * - Every expected no is a `Refusal` with a code of `REFUSALS`, which has the HTTP status, what may be sent next, what
 *   happened, and whether gRPC should answer with a status (`isMalformed`) or inside the response. A rejected promise
 *   is a `StoreError`: the ledger has stopped (503), and unless it says `applied: 'no'` the outcome is unknown.
 * - Transactions: `transact`, `createAccount`; `reads.account`; `history.accountEntries`, `.transaction`,
 *   `.idempotency`; `recovery`, `integrity`. Bodies are as on the wire; amounts may be bigints, strings of digits or
 *   safe integers, so a door must parse large JSON numbers itself, and not through `Number`.
 * - Sequenced writes: `write`, `batchWrite`, `createOrganization`, `createVault`; `reads.findScopeFault`, `.entity`,
 *   `.verifiedEntity`, `.hasRelationship`, `.clientState`; `getBlock`, `getTip`, `watchBlocks`, `history.proof`.
 * - What proves is text: `headerText`, `Block.texts`, `RowProof.bucket`. Send it as it is; `onceward/proof` checks it.
 * - Metrics come from `counters`, `inFlight`, `opening` and `failure`.
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
  ProvenTransaction,
  StoredTransaction,
  TransactionView,
} from './history.ts';
export {
  type InspectionReport,
  inspectLedger,
  type LogReport,
  readSettings,
} from './inspect-ledger.ts';
export type { Ledger, Opening } from './ledger.ts';
export { LIMITS } from './limits.ts';
export { EmbeddedLog, type EmbeddedLogOptions } from './log/embedded-log.ts';
export type { AppendResult, LedgerLog, LogRecord } from './log/ledger-log.ts';
export { type LedgerOptions, openLedger } from './open-ledger.ts';
export type {
  BatchWriteInput,
  Caller,
  OrganizationInput,
  VaultInput,
  WriteInput,
} from './pipeline/admit.ts';
export type {
  AccountView,
  Entity,
  Scope,
  StateParts,
  VerifiedAccount,
  VerifiedEntity,
} from './reads.ts';
export {
  type DuplicateLayer,
  REFUSALS,
  type Refusal,
  type RefusalCode,
  retryOf,
  type WriteProof,
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
  findDisagreements,
  type LedgerSettings,
  type MachineSettings,
  settingsFromEnvironment,
} from './settings.ts';
export type { AccountProof } from './state/account-table.ts';
export type { Checkpoint, CheckpointMeta, LedgerHome } from './state/ledger-home.ts';
export type { RowProof } from './state/row-table.ts';
export type { CommittedTransaction, CreateAccountResult, TransactResult } from './transactions.ts';
export type {
  ChangeResult,
  CreateResult,
  WriteOptions,
  WriteResult,
  WriteSuccess,
} from './writes.ts';
