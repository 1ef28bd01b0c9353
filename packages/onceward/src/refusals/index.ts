export {
  LEDGER_REFUSALS,
  type LedgerRefusalCode,
  type LedgerRefusalKind,
} from './ledger-refusals.ts';
export {
  type Happened,
  REFUSALS,
  type RefusalKind,
  type RefusalName,
  type Retry,
} from './refusals.ts';
