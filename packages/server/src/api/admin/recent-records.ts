import type { Engine, RecordState, RecordView } from 'onceward';
import type { RecentIds } from './recent-ids.ts';

export interface RecentQuery {
  readonly limit: number;
  readonly state?: RecordState;
  readonly scope?: string;
}

/** Records read for one query at most, beside those that this process touched last. */
const SCANNED_AT_MOST = 2_000;

/**
 * The records that changed last, as far as is known without reading the whole store: what this process touched,
 * and a bounded part of the rest. `complete` says that the rest was seen too.
 */
export async function recentRecords(
  engine: Engine,
  recent: RecentIds,
  query: RecentQuery,
): Promise<{ records: RecordView[]; complete: boolean }> {
  const { limit, state, scope } = query;
  const found = new Map<string, RecordView>();
  const add = (view: RecordView | null) => {
    if (view === null || (state !== undefined && view.state !== state)) return;
    if (scope !== undefined && view.id.scope !== scope) return;
    found.set(`${view.id.scope}\0${view.id.key}`, view);
  };
  for (const id of recent.list()) {
    if (found.size >= limit) break;
    if (scope === undefined || id.scope === scope) add(await engine.read(id));
  }
  let scanned = 0;
  const filter = {
    ...(state === undefined ? {} : { states: [state] }),
    ...(scope === undefined ? {} : { scope }),
  };
  for await (const view of engine.list({ ...filter, limit: SCANNED_AT_MOST })) {
    scanned += 1;
    add(view);
  }
  // Revisions rise for ever, so the order of revisions is the order of changes.
  const records = [...found.values()].sort((a, b) => b.revision - a.revision);
  return { records: records.slice(0, limit), complete: scanned < SCANNED_AT_MOST };
}
