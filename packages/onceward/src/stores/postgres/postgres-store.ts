import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../engine/errors.ts';
import type { OperationId, Revision } from '../../engine/record.ts';
import type {
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  StoreTraits,
  SwapResult,
  TransactionalStore,
} from '../../engine/record-store.ts';
import { type DurationMs, type EpochMs, MIB } from '../../engine/units.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import type { StoreFinding } from '../durability.ts';
import { Recent } from '../recent.ts';
import { assertFits } from '../record-size.ts';
import { SwapQueue } from '../swap-queue.ts';
import { Waiters } from '../waiters.ts';
import { ChangeListener } from './change-listener.ts';
import type { DurabilityProof } from './durability-proof.ts';
import { JoinedStore } from './joined-store.ts';
import type { PgClient, PgPool } from './pg-driver.ts';
import { PgSession } from './pg-session.ts';
import { type ReadAnswer, type ReadItem, readBatch } from './read-batch.ts';
import { collision, hashOf, recordFor, uuidText } from './record-rows.ts';
import { countRecords, type RunQuery, Sweep, scanRecords } from './record-scan.ts';
import {
  lockIdOf,
  SWAP,
  SWAP_NAME,
  type SwapAnswer,
  SwapBatch,
  type SwapItem,
} from './swap-batch.ts';
import { runInTransaction } from './transactions.ts';

const MAX_RECORD_BYTES = 8 * MIB;
/** Every operation of a batch takes an advisory lock, of which a server has some thousands. */
const MAX_BATCH = 128;
/** What one statement carries; a value of PostgreSQL ends at a gigabyte, and patience well before. */
const MAX_BATCH_BYTES = 4 * MIB;
/** A second connection pays only when a good batch waits; before, it would halve the batches of the first. */
const SECOND_FROM = 96;
/** Sweeps and scans may take longer than a call that someone waits for. */
const SWEEP_TIMEOUT_MS: DurationMs = 30_000;
const BUSY_PAUSE_MS: DurationMs = 4;
const REGISTRATION = `insert into onceward.waiting values ($1, now() + interval '1 minute')`;

export interface PostgresStoreParts {
  readonly pool: PgPool;
  readonly timeoutMs: DurationMs;
  readonly transactionTimeoutMs: DurationMs;
  readonly connections: number;
  readonly notifications: boolean;
  readonly proof: DurabilityProof;
}

export class PostgresStore implements TransactionalStore<PgClient> {
  readonly traits: StoreTraits;
  /** The server's settings that decide what the store promises. */
  readonly findings: readonly StoreFinding[];
  /** Absent without notifications: waiters then poll at a pace of their own. */
  readonly changed?: NonNullable<RecordStore['changed']>;
  readonly #parts: PostgresStoreParts;
  readonly #sessions: readonly PgSession[];
  readonly #reading: PgSession;
  readonly #sweeping: PgSession;
  readonly #swaps: SwapQueue<SwapItem, SwapAnswer>;
  readonly #reads: SwapQueue<ReadItem, ReadAnswer>;
  readonly #hashes = new Recent<string>();
  /** Not where a pooler is known, or found out, to send a prepared name to a connection that did not prepare it. */
  #statement: string | null;
  readonly #deadlines: CallDeadlines;
  readonly #waiters = new Waiters();
  readonly #listener: ChangeListener | null;

  constructor(parts: PostgresStoreParts) {
    const { pool, timeoutMs } = parts;
    this.traits = {
      name: 'postgres',
      durability: parts.proof.durability,
      maxRecordBytes: MAX_RECORD_BYTES,
      firstRevisionOfLife: null,
    };
    this.findings = parts.proof.findings;
    this.#parts = parts;
    this.#deadlines = new CallDeadlines(timeoutMs);
    const sessions = Array.from(
      { length: parts.connections },
      () => new PgSession(pool, timeoutMs),
    );
    this.#sessions = sessions;
    this.#reading = new PgSession(pool, timeoutMs);
    this.#sweeping = new PgSession(pool, SWEEP_TIMEOUT_MS);
    this.#listener = parts.notifications ? new ChangeListener(pool, this.#waiters) : null;
    if (parts.notifications) {
      this.changed = (id, seen, signal) => this.#awaitChange(id, seen, signal);
    }
    this.#statement = parts.notifications ? SWAP_NAME : null;
    this.#swaps = new SwapQueue({
      lanes: sessions.length,
      besideFrom: SECOND_FROM,
      maxBatch: MAX_BATCH,
      maxBytes: MAX_BATCH_BYTES,
      bytesOf: ({ next }) => next?.bytes.length ?? 0,
      timeoutMs,
      run: (items, lane) => this.#swapBatch(sessions[lane] as PgSession, items),
    });
    this.#reads = new SwapQueue({
      lanes: 1,
      maxBatch: MAX_BATCH,
      timeoutMs,
      run: (items) => readBatch(this.#reading, items),
    });
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    const answer = await this.#reads.add({ hash: uuidText(hashOf(id)) });
    return recordFor(id, 'row' in answer ? answer.row : null);
  }

  swap(id: OperationId, expected: Revision | null, next: NextRecord | null): Promise<SwapResult> {
    let item: SwapItem;
    try {
      assertFits(next, this.traits);
      const known = expected === null ? null : this.#hashes.take(id, expected);
      item = { id, hash: known ?? hashOf(id), expected, next };
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#swaps.add(item).then((answer) => {
      if (typeof answer === 'string') return this.#swapLater(item, answer);
      if (answer.won && next?.state === 'pending') {
        this.#hashes.note(id, answer.revision, item.hash);
      }
      return answer;
    });
  }

  async #swapLater(item: SwapItem, first: SwapAnswer): Promise<SwapResult> {
    const { timeoutMs } = this.#parts;
    const giveUpAt = performance.now() + timeoutMs;
    let answer = first;
    while (answer === 'busy') {
      if (performance.now() >= giveUpAt) throw stillBusy(timeoutMs);
      await sleep(BUSY_PAUSE_MS * (0.5 + Math.random()), undefined, { ref: false });
      answer = await this.#swaps.add(item);
    }
    if (answer === 'collision') throw collision();
    return answer;
  }

  async #swapBatch(session: PgSession, items: readonly SwapItem[]): Promise<SwapAnswer[]> {
    const name = this.#statement;
    try {
      return await swapBatch(session, items, name);
    } catch (error) {
      if (name === null || !isNameTrouble(error)) throw error;
      this.#statement = null;
      return swapBatch(session, items, null);
    }
  }

  scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    return scanRecords(this.#runAside, query);
  }

  count(): Promise<StoreCount> {
    return countRecords(this.#runAside);
  }

  /** Where records are read, not aside: a long count or sweep must not make the clock seem out of reach. */
  async clock(): Promise<EpochMs> {
    const answer = await this.#reads.add('clock');
    return 'now' in answer ? answer.now : Number.NaN;
  }

  forgetDue(now: EpochMs, limit: number): Promise<number> {
    return this.#sweep.forgetDue(now, limit);
  }

  scanDue(now: EpochMs, limit: number): AsyncIterable<ScannedRecord> {
    return this.#sweep.claimsDue(now, limit);
  }

  /**
   * The same records, written by `client` as part of the transaction it has open. A call waits for another transaction
   * that is writing the same record.
   */
  within(client: PgClient): RecordStore {
    return new JoinedStore(this.traits, client, this.#parts.transactionTimeoutMs);
  }

  /** Runs `work` in one transaction: give this to `executeWithin`. */
  readonly transact = <T>(work: (client: PgClient) => Promise<T>): Promise<T> => {
    const { pool, transactionTimeoutMs: timeoutMs } = this.#parts;
    // Whether it was committed is found out by reading, and a read must not be older than this doubt.
    const onDoubt = () => this.#reading.drop();
    return runInTransaction({ pool, deadlines: this.#deadlines, timeoutMs, onDoubt }, work);
  };

  /** Gives the connections back; the pool stays the caller's. */
  async close(): Promise<void> {
    this.#listener?.close();
    this.#waiters.wakeAll();
    for (const session of [...this.#sessions, this.#reading, this.#sweeping]) session.close();
  }

  async #awaitChange(id: OperationId, seen: Revision, signal: AbortSignal): Promise<void> {
    const hash = uuidText(hashOf(id));
    let wake = () => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    signal.addEventListener('abort', wake, { once: true });
    try {
      if (!signal.aborted && this.#listener?.isListening === true) {
        await this.#waiters.add(hash, wake, async () => {
          await this.#runAside(REGISTRATION, [hash]);
        });
        // It may have changed before we were known to be waiting.
        if ((await this.read(id))?.revision !== seen) return;
      }
      if (!signal.aborted) await woken;
    } finally {
      signal.removeEventListener('abort', wake);
      this.#waiters.remove(hash, wake);
    }
  }

  /** On a connection of its own, one statement after the other, so that sweeping never delays a claim. */
  readonly #runAside: RunQuery = async <Row>(text: string, values: unknown[]) => {
    const turn = this.#aside.then(() => this.#sweeping.query<Row>(text, values));
    this.#aside = turn.catch(() => {});
    return turn;
  };
  #aside: Promise<unknown> = Promise.resolve();
  readonly #sweep = new Sweep(this.#runAside);
}

async function swapBatch(
  session: PgSession,
  items: readonly SwapItem[],
  name: string | null,
): Promise<SwapAnswer[]> {
  const first = firstOfEach(items);
  const batch = new SwapBatch(first);
  const answers = batch.answers(await session.query(SWAP, batch.parameters(false), name));
  if (first.length === items.length) return answers;
  // What concerns an operation that another item of the batch has just written takes the next turn.
  const byItem = new Map(first.map((item, at) => [item, answers[at]]));
  return items.map((item) => byItem.get(item) ?? 'busy');
}

/** One item for each operation: a batch of the database must not name one twice. */
function firstOfEach(items: readonly SwapItem[]): readonly SwapItem[] {
  // Numbers compare in a fraction of the time that texts take; the texts are hardly ever reached.
  if (new Set(items.map(lockIdOf)).size === items.length) return items;
  const seen = new Set<string>();
  return items.filter(({ hash }) => {
    return !seen.has(hash) && seen.add(hash);
  });
}

/** A prepared statement that does not exist, or exists already: SQLSTATEs after which nothing was done. */
function isNameTrouble(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
  return code === '26000' || code === '42P05';
}

function stillBusy(ms: DurationMs): StoreError {
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `another transaction has been writing this record for ${ms} ms`,
    { applied: 'no' },
  );
}
