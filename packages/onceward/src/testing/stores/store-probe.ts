import type { OperationId, Revision } from '../../engine/record.ts';
import type {
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  SwapResult,
} from '../../engine/record-store.ts';

/** What the laws of a store have in common: one id, one moment, and short ways to write and read. */
export const NOW = 1_800_000_000_000;
export const ID: OperationId = { scope: 'tenant-1', key: 'order-1' };

export function record(text: string | Uint8Array, change: Partial<NextRecord> = {}): NextRecord {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  return { bytes, state: 'pending', dueAt: NOW, ...change };
}

export async function win(swap: Promise<SwapResult>): Promise<Revision> {
  const result = await swap;
  if (!result.won) throw new Error('The swap was expected to win, and lost.');
  return result.revision;
}

export async function textAt(store: RecordStore, id: OperationId): Promise<string | null> {
  const stored = await store.read(id);
  return stored && new TextDecoder().decode(stored.bytes);
}

export function collect(store: RecordStore, query: ScanQuery): Promise<ScannedRecord[]> {
  return collectFrom(store.scan(query));
}

export async function collectFrom(scan: AsyncIterable<ScannedRecord>): Promise<ScannedRecord[]> {
  const found: ScannedRecord[] = [];
  for await (const one of scan) found.push(one);
  return found;
}
