import type { EpochMs } from '../../engine/units.ts';
import type { PgSession } from './pg-session.ts';
import { READ, type ReadRow, type RecordRow } from './record-rows.ts';

const CLOCK = `select date_part('epoch', clock_timestamp()) * 1000 as now`;

/** A record to read, by its hash, or the time of the server. */
export type ReadItem = { readonly hash: string } | 'clock';

export type ReadAnswer = { readonly row: RecordRow | null } | { readonly now: EpochMs };

/** What was asked for together is read together. */
export async function readBatch(
  session: PgSession,
  items: readonly ReadItem[],
): Promise<ReadAnswer[]> {
  const hashes = items.flatMap((item) => (item === 'clock' ? [] : [item.hash]));
  const rows = hashes.length === 0 ? [] : await session.query<ReadRow>(READ, [hashes]);
  const byHash = new Map(rows.map((row) => [row.hash, row]));
  // Last, so that the answer is fresh.
  const now = items.includes('clock') ? await readClock(session) : 0;
  return items.map((item) => {
    return item === 'clock' ? { now } : { row: byHash.get(item.hash) ?? null };
  });
}

async function readClock(session: PgSession): Promise<EpochMs> {
  const [row] = await session.query<{ now: EpochMs }>(CLOCK, []);
  return row!.now;
}
