/** The ledger from outside: calls with proofs that are checked, and a writer that keeps its sequence. */
export type { LedgerAnchor } from './ledger/ledger-anchor.ts';
export { LedgerCallError } from './ledger/ledger-call-error.ts';
export {
  LedgerClient,
  type LedgerClientOptions,
  type LedgerStream,
  type WriteAnswer,
  type WriteCall,
} from './ledger/ledger-client.ts';
export {
  type LedgerOperation,
  LedgerWriter,
  type LedgerWriterOptions,
} from './ledger/ledger-writer.ts';
export type { WriterResult } from './ledger/writer-result.ts';
