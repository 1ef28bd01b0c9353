import type { Engine, OperationId, RecordView, Verdict } from 'onceward';

export interface DoubtFilter {
  readonly scope?: string;
  readonly scopePrefix?: string;
  /** In doubt for at least so long. */
  readonly olderThanMs: number;
}

export interface BulkResult {
  readonly matched: number;
  readonly resolved: number;
  /** Changed meanwhile, or not readable and thus only to be voided. */
  readonly skipped: number;
  /** False: there are more than the limit; ask again. */
  readonly complete: boolean;
}

/** Verdicts that are in flight at once: their lines in the audit trail share a write. */
const AT_ONCE = 100;

/** Every operation in doubt that the filter lets through. */
async function* doubts(engine: Engine, filter: DoubtFilter): AsyncIterable<RecordView> {
  const { scope, scopePrefix = '', olderThanMs } = filter;
  const before = Date.now() - olderThanMs;
  const query = { states: ['in_doubt'], limit: Number.MAX_SAFE_INTEGER } as const;
  for await (const view of engine.list({ ...query, ...(scope === undefined ? {} : { scope }) })) {
    // Since when an unreadable one is in doubt is unknown.
    const since = view.record?.state === 'in_doubt' ? view.record.since : Number.POSITIVE_INFINITY;
    const isOldEnough = olderThanMs === 0 || since <= before;
    if (isOldEnough && view.id.scope.startsWith(scopePrefix)) yield view;
  }
}

export async function countDoubts(engine: Engine, filter: DoubtFilter): Promise<BulkResult> {
  let matched = 0;
  for await (const _view of doubts(engine, filter)) matched += 1;
  return { matched, resolved: 0, skipped: 0, complete: true };
}

/** Resolves them one by one, each with its line in the audit trail, up to the limit. */
export async function resolveDoubts(
  engine: Engine,
  filter: DoubtFilter,
  verdict: Verdict,
  limit: number,
): Promise<BulkResult> {
  const found: OperationId[] = [];
  let complete = true;
  let unreadable = 0;
  for await (const { id, record } of doubts(engine, filter)) {
    if (record === null && verdict.as !== 'void') {
      unreadable += 1;
      continue;
    }
    complete = found.length < limit;
    if (!complete) break;
    found.push(id);
  }
  let resolved = 0;
  for (let at = 0; at < found.length; at += AT_ONCE) {
    const batch = found.slice(at, at + AT_ONCE).map((id) => engine.resolve(id, verdict));
    for (const { done } of await Promise.all(batch)) if (done) resolved += 1;
  }
  const skipped = found.length - resolved + unreadable;
  return { matched: found.length + unreadable, resolved, skipped, complete };
}
