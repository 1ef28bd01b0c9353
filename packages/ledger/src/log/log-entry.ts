import { EarlierFormat } from '../earlier-format.ts';
import type { ChangeableSettings } from '../rules/changeable-settings.ts';
import type { Request } from '../rules/request.ts';
import { requestText } from '../rules/request-text.ts';

/** What the state machine must not read from a clock or the environment. */
export interface MachineSettings extends ChangeableSettings {
  /** Random, made with the ledger: keeps anyone from choosing keys whose hashes collide. Never shown. */
  readonly hash_key: string;
}

interface EntryHead {
  /** From 1, without gaps. Also the height of the block that it becomes. */
  readonly index: number;
  /** The term of the leader that wrote it. Never falls. */
  readonly term: number;
  /** When the leader wrote it, in milliseconds since the epoch. */
  readonly at: number;
  /** The requests of all entries up to this index had been answered when this was written. */
  readonly answered: number;
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
  /** In the very first entry of a ledger, and only there. */
  readonly settings?: MachineSettings;
}

export type LogEntry = BatchEntry | BarrierEntry;

export function encodeEntry(entry: LogEntry): string {
  const { index, term, at, answered, kind } = entry;
  const head = `{"index":${index},"term":${term},"at":${at},"answered":${answered},"kind":"${kind}"`;
  if (kind !== 'barrier') return `${head},"requests":[${entry.texts.join(',')}]}`;
  return `${head}${entry.settings ? `,"settings":${JSON.stringify(entry.settings)}` : ''}}`;
}

export function decodeEntry(text: string): LogEntry {
  const entry = JSON.parse(text) as LogEntry;
  if (entry.answered === undefined) throw new EarlierFormat();
  if (entry.kind === 'barrier') return entry;
  return { ...entry, texts: entry.requests.map(requestText) };
}
