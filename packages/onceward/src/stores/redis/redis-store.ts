import { createHash } from 'node:crypto';
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
} from '../../engine/record-store.ts';
import { type DurationMs, type EpochMs, MIB, MINUTE } from '../../engine/units.ts';
import type { StoreFinding } from '../durability.ts';
import { assertFits } from '../record-size.ts';
import { Rounds } from '../rounds.ts';
import { requireStorable } from '../storable-id.ts';
import type { Waiters } from '../waiters.ts';
import { AWAIT } from './await.lua.ts';
import { type DurabilityProof, proveDurability } from './durability-proof.ts';
import { claimAllCommand, claimCommand, type KeySwap, swapArguments } from './key-swap.ts';
import { countRecords, PAGE, type Page, recordsIn, scanHeads, scanRecords } from './record-scan.ts';
import type { Reply } from './redis-driver.ts';
import type { RedisLink } from './redis-link.ts';
import type { RedisServers } from './redis-servers.ts';
import { RESERVE_REVISIONS } from './reserve-revisions.lua.ts';
import { RevisionSource } from './revision-source.ts';
import { decodeValue, encodeHead, keyOf, type StoredValue } from './stored-value.ts';
import { SWAP } from './swap.lua.ts';
import { SwapBatches } from './swap-batches.ts';

/**
 * How long a settled record stays after it fell due, and a forgotten one leaves its revision. It must exceed the life
 * of a block of revisions (see `revision-source.ts`) plus the longest call: a claim that is sent with others, again on
 * its own after half of its time, and once more with the text of the script. Its time is at most half a minute, so that
 * makes 95 seconds; and 110 in a cluster, where nodes point to others that are not connected yet.
 */
export const GRACE_MS: DurationMs = 2 * MINUTE;

const MAX_RECORD_BYTES = 8 * MIB;
/** Keeps a call of the script well under a millisecond of the server's time. */
const MAX_BATCH = 128;
/** Keys that one pass of a sweeper visits. */
const SWEPT_AT_ONCE = 25_000;

interface Script {
  readonly text: string;
  readonly sha: string;
}

function scriptOf(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}

const SWAPPING = scriptOf(SWAP);
const AWAITING = scriptOf(AWAIT);

export interface RedisStoreParts {
  readonly servers: RedisServers;
  /** Subscriptions need a connection of their own. */
  readonly subscriptions: RedisLink | null;
  readonly waiters: Waiters;
  readonly prefix: string;
  readonly timeoutMs: DurationMs;
  readonly proof: DurabilityProof;
}

export class RedisStore implements RecordStore {
  #traits: StoreTraits;
  #findings: readonly StoreFinding[];
  /** Absent without notifications: waiters then poll at a pace of their own. */
  readonly changed?: NonNullable<RecordStore['changed']>;
  readonly #parts: RedisStoreParts;
  readonly #servers: RedisServers;
  readonly #revisions: RevisionSource;
  readonly #swaps: SwapBatches;
  readonly #rounds: Rounds<Page>;
  /** How far this process's clock is ahead of Redis'. */
  #aheadMs: DurationMs = 0;

  constructor(parts: RedisStoreParts) {
    this.#traits = {
      name: 'redis',
      durability: parts.proof.durability,
      maxRecordBytes: MAX_RECORD_BYTES,
      firstRevisionOfLife: null,
    };
    this.#findings = parts.proof.findings;
    this.#parts = parts;
    const { subscriptions } = parts;
    if (subscriptions !== null) {
      this.changed = (id, seen, signal) => this.#awaitChange(subscriptions, id, seen, signal);
    }
    this.#servers = parts.servers;
    this.#swaps = new SwapBatches({
      maxBatch: parts.servers.clustered ? 1 : MAX_BATCH,
      timeoutMs: parts.timeoutMs,
      claim: (swap) => this.#servers.run(swap.key, claimCommand(swap)),
      claimAll: (swaps) => this.#servers.run(swaps[0]!.key, claimAllCommand(swaps)),
      run: (swaps) => {
        const keys = swaps.map(({ key }) => key);
        return this.#runScript(SWAPPING, keys, swapArguments(swaps));
      },
      judge: (swap, found) => this.#judge(swap, found),
    });
    this.#rounds = new Rounds(
      () => scanHeads(parts.servers, parts.prefix, undefined),
      // A page has visited so many keys even where none of them is ours.
      ([, heads]) => Math.max(PAGE, heads.length),
      SWEPT_AT_ONCE,
    );
    this.#revisions = new RevisionSource(async (count) => {
      const key = `${parts.prefix}revisions`;
      const command = ['EVAL', RESERVE_REVISIONS, '1', key, String(count)] as const;
      return Number(await parts.servers.run(key, command));
    });
  }

  get traits(): StoreTraits {
    return this.#traits;
  }

  /** The server's settings that decide what the store promises. */
  get findings(): readonly StoreFinding[] {
    return this.#findings;
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    requireStorable(id);
    const key = keyOf(this.#parts.prefix, id);
    return recordIn(valueIn(await this.#servers.run(key, ['GET', key])));
  }

  swap(id: OperationId, expected: Revision | null, next: NextRecord | null): Promise<SwapResult> {
    try {
      assertFits(next, this.traits);
      requireStorable(id);
    } catch (error) {
      return Promise.reject(error);
    }
    const key = keyOf(this.#parts.prefix, id);
    return this.#write(key, expected, false, next);
  }

  scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    return scanRecords(this.#servers, this.#parts.prefix, query);
  }

  /** Only claims: what is settled, Redis forgets by itself. */
  scanDue(now: EpochMs, limit: number): AsyncIterable<ScannedRecord> {
    const query = { states: ['pending'], dueBefore: now, limit } as const;
    return recordsIn(this.#rounds.nextShare(), this.#parts.prefix, query);
  }

  /** Of several masters, the one that is furthest behind: nothing may expire early on any. */
  async clock(): Promise<EpochMs> {
    const masters = await this.#servers.masters();
    const times = await Promise.all(masters.map((link) => link.call('TIME')));
    const earliest = Math.min(...times.map(timeIn));
    this.#aheadMs = Date.now() - earliest;
    void this.#proveAgain(masters);
    return earliest;
  }

  /** A replica may be attached, or a setting changed, while the store is open. */
  async #proveAgain(masters: readonly RedisLink[]): Promise<void> {
    try {
      const { durability, findings } = await proveDurability(masters);
      this.#traits = { ...this.#traits, durability };
      this.#findings = findings;
    } catch {
      // Out of reach: what was proven last stays, and the calls themselves fail.
    }
  }

  count(): Promise<StoreCount> {
    return countRecords(this.#servers, this.#parts.prefix);
  }

  async close(): Promise<void> {
    this.#servers.close();
    this.#parts.subscriptions?.close();
    this.#parts.waiters.wakeAll();
  }

  async #awaitChange(
    subscriptions: RedisLink,
    id: OperationId,
    seen: Revision,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted) return;
    const { waiters, prefix } = this.#parts;
    const key = keyOf(prefix, id);
    let wake = () => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    signal.addEventListener('abort', wake, { once: true });
    try {
      await waiters.add(key, wake, () => subscriptions.subscribe(key));
      // It may have changed before the subscription stood.
      const reply = await this.#runScript(AWAITING, [key], [encodeHead(seen)]);
      if (recordIn(valueIn(reply))?.revision === seen) await woken;
    } finally {
      signal.removeEventListener('abort', wake);
      if (waiters.remove(key, wake)) subscriptions.unsubscribe(key).catch(() => {});
    }
  }

  #write(
    key: string,
    expected: Revision | null,
    overMark: boolean,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    const now = performance.now();
    const seen = expected ?? 0;
    const revision = this.#revisions.take(seen, now);
    if (revision !== null) return this.#add(key, expected, overMark, next, revision, now);
    return this.#revisionAbove(seen).then((one) =>
      this.#add(key, expected, overMark, next, one, now),
    );
  }

  #add(
    key: string,
    expected: Revision | null,
    overMark: boolean,
    next: NextRecord | null,
    revision: Revision,
    addedAt: DurationMs,
  ): Promise<SwapResult> {
    const lifetime = lifetimeOf(next, this.#aheadMs);
    return new Promise((resolve, reject) => {
      this.#swaps.add({
        key,
        expected,
        overMark,
        next,
        revision,
        lifetime,
        addedAt,
        resolve,
        reject,
      });
    });
  }

  #judge(swap: KeySwap, reply: Reply): SwapResult | Promise<SwapResult> {
    const { key, expected, next, revision } = swap;
    const found = valueIn(reply);
    // Our own write, sent again by something between us and Redis.
    if (found?.revision === revision) return { won: true, revision };
    const isMark = found !== null && found.state === null;
    if (expected === null && isMark) return this.#write(key, found.revision, true, next);
    return { won: false, current: recordIn(found) };
  }

  async #runScript(
    { text, sha }: Script,
    keys: readonly string[],
    args: readonly Buffer[],
  ): Promise<Reply> {
    const key = keys[0] as string;
    const count = String(keys.length);
    const began = performance.now();
    try {
      return await this.#servers.run(key, ['EVALSHA', sha, count, ...keys, ...args]);
    } catch (error) {
      // A server that restarted has forgotten the script; sending it whole also loads it.
      if (!(error instanceof StoreError) || !error.message.includes('NOSCRIPT')) throw error;
      if (performance.now() - began > this.#parts.timeoutMs) throw error;
      return this.#servers.run(key, ['EVAL', text, count, ...keys, ...args]);
    }
  }

  async #revisionAbove(seen: Revision): Promise<Revision> {
    // A reservation in flight may be older than what was seen; the one after it cannot be.
    for (let tries = 0; tries < 3; tries += 1) {
      const revision = this.#revisions.take(seen, performance.now());
      if (revision !== null) return revision;
      await this.#revisions.renew();
    }
    throw new StoreError(
      'ONCE_STORE_FAILED',
      `Redis reserves revisions below ${seen}, which is already in use; was its clock or data set back?`,
      { applied: 'no' },
    );
  }
}

/** In milliseconds. Redis itself forgets what is settled, some time after it fell due; a claim or a doubt stays. */
function lifetimeOf(next: NextRecord | null, aheadMs: DurationMs): string {
  if (next === null) return String(GRACE_MS);
  if (next.dueAt === null || next.state === 'pending' || next.state === 'in_doubt') return '';
  const now = Date.now() - Math.max(0, aheadMs);
  return String(Math.ceil(Math.max(0, next.dueAt - now)) + GRACE_MS);
}

/** TIME answers in seconds and microseconds. */
function timeIn(reply: Reply): EpochMs {
  const [seconds, micros] = reply as readonly Reply[];
  return Number(String(seconds)) * 1_000 + Math.floor(Number(String(micros)) / 1_000);
}

function valueIn(reply: Reply): StoredValue | null {
  return Buffer.isBuffer(reply) ? decodeValue(reply) : null;
}

function recordIn(value: StoredValue | null): StoredRecord | null {
  return value === null || value.state === null
    ? null
    : { revision: value.revision, bytes: value.bytes };
}
