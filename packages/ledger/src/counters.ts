import type { DuplicateLayer } from './refusal.ts';

/** What has happened since the ledger was opened. For metrics: read it whenever they are asked for. */
export interface LedgerCounters {
  transactions: number;
  rejected: number;
  rolledBack: number;
  readonly duplicates: Record<DuplicateLayer, number>;
  writes: number;
  /** Retries of sequenced writes, by where their answer came from. */
  readonly repeats: { near: number; replicated: number };
  refused: number;
  batches: number;
  checkpoints: number;
  snapshots: number;
}

export function newCounters(): LedgerCounters {
  return {
    transactions: 0,
    rejected: 0,
    rolledBack: 0,
    duplicates: { in_flight: 0, batch: 0, database: 0 },
    writes: 0,
    repeats: { near: 0, replicated: 0 },
    refused: 0,
    batches: 0,
    checkpoints: 0,
    snapshots: 0,
  };
}
