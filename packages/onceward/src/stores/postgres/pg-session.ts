import { StoreError } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import type { PgMessage, PgPool, PgPoolClient, PgResult, PgStatement } from './pg-driver.ts';
import { unconfirmed } from './transactions.ts';

/**
 * A commit of its own that writes to the log and nowhere else. When it is acknowledged, so is everything before it:
 * after a primary has restarted, rows may be visible that no standby has, and reads may be believed only behind this.
 * A standby cannot carry it out, which is just as well: nothing is ever decided on a standby.
 */
const BARRIER = `select date_part('epoch', pg_postmaster_start_time()) as epoch,
  pg_logical_emit_message(true, 'onceward', 'barrier')`;

/** One life of the server. Any column of this name in a result is compared with the barrier's. */
export const EPOCH = `date_part('epoch', pg_postmaster_start_time()) as epoch`;

/**
 * One pooled connection that is replaced when anything about it becomes doubtful: an error, a warning, a call that ran
 * out of time. Each new one begins with a barrier.
 */
export class PgSession {
  readonly #pool: PgPool;
  readonly #deadlines: CallDeadlines;
  #client: PgPoolClient | null = null;
  #opening: Promise<PgPoolClient> | null = null;
  #epoch: number | null = null;
  /** Warnings that came with the statement in flight. */
  #warning: string | null = null;
  #closed = false;

  constructor(pool: PgPool, timeoutMs: DurationMs) {
    this.#pool = pool;
    this.#deadlines = new CallDeadlines(timeoutMs, () => this.drop());
  }

  /** Runs one statement, which is one transaction. At most one may be in flight. A named one the server remembers. */
  async query<Row>(
    text: string,
    values: unknown[],
    name: string | null = null,
  ): Promise<readonly Row[]> {
    const client =
      this.#client ?? (await this.#deadlines.bound(this.#open(), unreachable, notSent));
    const rows = await this.#run<Row & { epoch?: number }>(client, text, values, name);
    const epoch = rows[0]?.epoch;
    if (epoch !== undefined && epoch !== this.#epoch) {
      await this.#raiseBarrier(client).catch((cause: unknown) => {
        throw unproven(cause as Error);
      });
    }
    return rows;
  }

  drop(): void {
    const client = this.#client;
    this.#client = null;
    client?.release(true);
  }

  close(): void {
    this.#closed = true;
    this.drop();
  }

  async #run<Row>(
    client: PgPoolClient,
    text: string,
    values: unknown[],
    name: string | null = null,
  ): Promise<readonly Row[]> {
    this.#warning = null;
    try {
      const statement = name === null ? { text, values } : { name, text, values };
      const { rows } = await this.#deadlines.bound(resultOf(client, statement), explain);
      if (this.#warning !== null) throw unconfirmed(this.#warning);
      return rows as readonly Row[];
    } catch (error) {
      this.drop();
      throw error;
    }
  }

  #open(): Promise<PgPoolClient> {
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = null;
    });
    return this.#opening;
  }

  async #connect(): Promise<PgPoolClient> {
    const client = await this.#pool.connect();
    if (this.#closed) {
      client.release();
      throw new Error('the store is closed');
    }
    client.on('notice', (notice: PgMessage) => {
      if (notice.severity === 'WARNING') this.#warning = notice.message ?? 'a warning';
    });
    client.on('error', () => {
      if (this.#client === client) this.drop();
    });
    this.#client = client;
    await this.#raiseBarrier(client);
    return client;
  }

  async #raiseBarrier(client: PgPoolClient): Promise<void> {
    const [row] = await this.#run<{ epoch: number }>(client, BARRIER, []);
    this.#epoch = row?.epoch ?? null;
  }
}

/**
 * By a callback: of a statement that `pg` gives a promise for, all that was sent stays in memory until the old
 * generation is collected. See decision 0021.
 */
function resultOf(client: PgPoolClient, statement: PgStatement): Promise<PgResult> {
  return new Promise((resolve, reject) => {
    const returned = client.query(statement, (error, result) => {
      if (error) reject(error);
      else resolve(result);
    });
    if (!isThenable(returned)) return;
    // A wrapper that passes the callback on has nothing else to give.
    returned.then((result) => {
      if (result !== undefined) resolve(result);
    }, reject);
  });
}

function isThenable(value: unknown): value is PromiseLike<PgResult | undefined> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === 'function';
}

const notSent = () => 'no' as const;

function unreachable(cause: unknown): StoreError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new StoreError('ONCE_STORE_UNAVAILABLE', `PostgreSQL cannot be reached: ${message}`, {
    cause,
    applied: 'no',
  });
}

/** The barrier failed, whatever its reason. The statement before it was carried out. */
function unproven(cause: Error): StoreError {
  const message = `PostgreSQL has restarted, and what it did since is not confirmed: ${cause.message}`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause });
}

/** SQLSTATE classes after which a statement is known to have been undone; 40003 says that this is not known. */
const UNDONE = /^(0A|22|23|25|26|28|34|3D|3F|40(?!003)|42|53|54|55|P0|57014)/;

export function explain(cause: unknown): StoreError {
  const { code, message } = cause as { code?: unknown; message?: unknown };
  const undone = typeof code === 'string' && code.length === 5 && UNDONE.test(code);
  return new StoreError('ONCE_STORE_UNAVAILABLE', `PostgreSQL failed: ${String(message)}`, {
    cause,
    applied: undone ? 'no' : 'unknown',
  });
}
