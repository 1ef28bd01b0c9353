import type { RecordState } from '../../engine/record.ts';
import type { ScannedRecord, ScanQuery, StoreCount } from '../../engine/record-store.ts';
import type { EpochMs } from '../../engine/units.ts';
import { type RecordRow, STATE_NUMBERS, stateOf } from './record-rows.ts';

export type RunQuery = <Row>(text: string, values: unknown[]) => Promise<readonly Row[]>;

/** Pages of the table that one statement reads: 4 MiB, a few milliseconds. */
const STEP = 512;
/** How far one call of the sweeper goes to forget: 256 MiB of table. */
const LONGEST_SWEEP = 32_768;
/** And to find claims, of which few are abandoned: 64 MiB. */
const LONGEST_SEARCH = 8_192;

/** What cannot be swept must not hold up what is behind it. */
const MOST_STAYS = 8;

const PAGES = `select (pg_relation_size('onceward.records') / current_setting('block_size')::int)::int as pages`;

/**
 * Ranges of pages instead of an index: an index on state or due time would have to be written twice per operation and
 * would move every settled row to another page, for the sake of a sweep that can as well read the table in order.
 */
const SCAN = `select scope, key, revision, state, due_at, bytes from onceward.records
  where ctid >= $1::tid and ctid < $2::tid
    and ($3::smallint[] is null or state = any($3)) and ($4::text is null or scope = $4)
    and ($5::bigint is null or due_at <= $5)`;

const FORGET = `with due as (
    select hash, revision from onceward.records
    where ctid >= $1::tid and ctid < $2::tid and state in (2, 3) and due_at <= $3
    limit $4 for update skip locked
  ), deleted as (
    delete from onceward.records r using due
    where r.hash = due.hash and r.revision = due.revision returning 1
  ) select count(*)::int as forgotten from deleted`;

/** Skips rows locked by an open transaction: a sweep must not wait. */
const FORGET_WAITERS = `delete from onceward.waiting where ctid = any (array(
    select ctid from onceward.waiting where until < now() for update skip locked))`;

const COUNT = 'select state, count(*)::int as records from onceward.records group by state';

interface ScanRow extends RecordRow {
  readonly state: number;
  readonly due_at: string | null;
}

export async function* scanRecords(run: RunQuery, query: ScanQuery): AsyncGenerator<ScannedRecord> {
  if (query.limit <= 0) return;
  // A row that is updated while we read may turn up again on a later page.
  const given = new Set<string>();
  const pages = await readPages(run);
  for (let page = 0; page < pages; page += STEP) {
    for (const record of await scanStep(run, page, query)) {
      const name = `${record.id.scope.length}:${record.id.scope}${record.id.key}`;
      if (given.has(name)) continue;
      given.add(name);
      yield record;
      if (given.size >= query.limit) return;
    }
  }
}

async function scanStep(
  run: RunQuery,
  page: number,
  query: Omit<ScanQuery, 'limit'>,
): Promise<ScannedRecord[]> {
  const states = query.states?.map((state) => STATE_NUMBERS[state]) ?? null;
  const filters = [states, query.scope ?? null, query.dueBefore ?? null];
  const rows = await run<ScanRow>(SCAN, [...range(page), ...filters]);
  return rows.map((row) => ({
    id: { scope: row.scope, key: row.key },
    revision: Number(row.revision),
    bytes: row.bytes,
    state: stateOf(row.state),
    dueAt: row.due_at === null ? null : Number(row.due_at),
  }));
}

export async function countRecords(run: RunQuery): Promise<StoreCount> {
  const counts: Record<RecordState, number> = {
    pending: 0,
    committed: 0,
    rejected: 0,
    in_doubt: 0,
  };
  for (const row of await run<{ state: number; records: number }>(COUNT, [])) {
    counts[stateOf(row.state)] = row.records;
  }
  return counts;
}

/** Goes round the table, a stretch at each call, so that a large one is swept without ever being read at once. */
export class Sweep {
  readonly #run: RunQuery;
  #forgetFrom = 0;
  #searchFrom = 0;
  #stays = 0;

  constructor(run: RunQuery) {
    this.#run = run;
  }

  async forgetDue(now: EpochMs, limit: number): Promise<number> {
    const pages = await readPages(this.#run);
    const stretch = Math.min(pages, LONGEST_SWEEP);
    let forgotten = 0;
    for (let read = 0; read < stretch; read += STEP) {
      if (this.#forgetFrom >= pages) this.#forgetFrom = 0;
      const [row] = await this.#run<{ forgotten: number }>(FORGET, [
        ...range(this.#forgetFrom),
        now,
        limit - forgotten,
      ]);
      forgotten += row?.forgotten ?? 0;
      if (forgotten >= limit) return forgotten;
      this.#forgetFrom += STEP;
    }
    await this.#run(FORGET_WAITERS, []);
    return forgotten;
  }

  /** A stretch that gave as many as were asked for is not behind us yet. */
  async *claimsDue(now: EpochMs, limit: number): AsyncGenerator<ScannedRecord> {
    if (limit <= 0) return;
    const pages = await readPages(this.#run);
    const stretch = Math.min(pages, LONGEST_SEARCH);
    const query = { states: ['pending'], dueBefore: now } as const;
    let given = 0;
    for (let read = 0; read < stretch; read += STEP) {
      if (this.#searchFrom >= pages) this.#searchFrom = 0;
      for (const claim of await scanStep(this.#run, this.#searchFrom, query)) {
        yield claim;
        given += 1;
        if (given < limit) continue;
        this.#stays += 1;
        if (this.#stays >= MOST_STAYS) this.#goOn();
        return;
      }
      this.#goOn();
    }
  }

  #goOn(): void {
    this.#searchFrom += STEP;
    this.#stays = 0;
  }
}

async function readPages(run: RunQuery): Promise<number> {
  const [row] = await run<{ pages: number }>(PAGES, []);
  return row?.pages ?? 0;
}

function range(page: number): [string, string] {
  return [`(${page},0)`, `(${page + STEP},0)`];
}
