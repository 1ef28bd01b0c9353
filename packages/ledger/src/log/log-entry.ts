import type { Request } from '../rules/request.ts';
import { requestText } from '../rules/request-text.ts';

/**
 * What the state machine must know and no clock or environment may tell it: part of the log, so that replicas
 * agree.
 */
export interface MachineSettings {
  readonly idempotency_ttl_ms: number;
  readonly idempotency_cleanup_ms: number;
  readonly database_conflict: 'rollback' | 'reject_duplicate';
  readonly eviction_interval: number;
  readonly client_ttl_ms: number;
  /** Random, made with the ledger: keeps anyone from choosing keys whose hashes collide. */
  readonly hash_seed: number;
}

interface EntryHead {
  /** From 1, without gaps. Also the height of the block that it becomes. */
  readonly index: number;
  /** The term of the leader that wrote it. Never falls. */
  readonly term: number;
  /** When the leader wrote it, in milliseconds since the epoch. */
  readonly at: number;
}

/** One batch. Transactions have batches of their own, because a duplicate among them can undo the whole batch. */
export interface BatchEntry extends EntryHead {
  readonly kind: 'transactions' | 'writes';
  readonly requests: readonly Request[];
  /** The JSON texts of the requests: made once, for the log, the block and the proof alike. */
  readonly texts: readonly string[];
}

/** The first entry of a term: what a new leader must have applied before it serves. */
export interface BarrierEntry extends EntryHead {
  readonly kind: 'barrier';
  readonly settings: MachineSettings;
}

export type LogEntry = BatchEntry | BarrierEntry;

export function encodeEntry(entry: LogEntry): string {
  const { index, term, at, kind } = entry;
  const head = `{"index":${index},"term":${term},"at":${at},"kind":"${kind}"`;
  if (kind === 'barrier') return `${head},"settings":${JSON.stringify(entry.settings)}}`;
  return `${head},"requests":[${entry.texts.join(',')}]}`;
}

export function decodeEntry(text: string): LogEntry {
  const entry = JSON.parse(text) as LogEntry;
  if (entry.kind === 'barrier') return entry;
  return { ...entry, texts: entry.requests.map(requestText) };
}
