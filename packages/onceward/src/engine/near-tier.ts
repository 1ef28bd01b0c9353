import { AnswerTable } from './answer-table.ts';
import type { Refusal } from './operation.ts';
import type { OperationId, Outcome, SettledRecord, SettledState } from './record.ts';
import { decodeRecord } from './record-codec.ts';
import { UnaskedRecords } from './unasked-records.ts';
import { type EpochMs, MIB } from './units.ts';

export interface NearTierOptions {
  /** Settled answers remembered at most. */
  readonly maxEntries?: number;
  /** Bytes of outcomes remembered at most. */
  readonly maxBytes?: number;
  /** Operations that may run in this process at once; one more is refused as over quota. */
  readonly maxRunning?: number;
}

/** A settled answer, ready to be given again. */
export class NearAnswer {
  readonly fingerprint: string;
  readonly outcome: Outcome;
  readonly state: SettledState;
  readonly attempt: number;
  readonly owner: string;
  readonly settledAt: EpochMs;
  readonly keepUntil: EpochMs;
  /** How often this process has given it. */
  replays = 0;

  constructor(
    record: Pick<
      SettledRecord,
      'fingerprint' | 'state' | 'attempt' | 'owner' | 'settledAt' | 'keepUntil'
    >,
    outcome: Outcome,
  ) {
    this.fingerprint = record.fingerprint;
    this.state = record.state;
    this.outcome = outcome;
    this.attempt = record.attempt;
    this.owner = record.owner;
    this.settledAt = record.settledAt;
    this.keepUntil = record.keepUntil;
  }
}

/**
 * What a run leaves to those behind it: its answer; the refusal of a store that did not answer, which they would only
 * meet again one after the other; or nothing, and each finds out for itself.
 */
export type RunEnd = NearAnswer | Refusal | null;

/** An operation that this process is running, or is trying to claim. Others gather here. */
export class Run {
  readonly id: OperationId;
  readonly fingerprint: string;
  /** The store has granted the claim: only now is the fingerprint known to be the right one. */
  claimed = false;
  #ended: { readonly by: RunEnd } | null = null;
  #waiting: ((end: RunEnd) => void)[] | null = null;

  constructor(id: OperationId, fingerprint: string) {
    this.id = id;
    this.fingerprint = fingerprint;
  }

  /** Somebody in this process wants its answer too. */
  get isAwaited(): boolean {
    return this.#waiting !== null;
  }

  whenEnded(callback: (end: RunEnd) => void): void {
    if (this.#ended !== null) {
      callback(this.#ended.by);
      return;
    }
    this.#waiting ??= [];
    this.#waiting.push(callback);
  }

  end(by: RunEnd): void {
    this.#ended = { by };
    if (this.#waiting === null) return;
    for (const callback of this.#waiting) callback(by);
    this.#waiting = null;
  }
}

/**
 * The bounded memory before the store. It may answer what is settled, and gathers arrivals behind a run of this
 * process; it never says "absent" and never grants a claim: for both, the store is asked.
 *
 * Runs are few and in maps, by scope and by key: they are never evicted. Answers that were asked for are in a table;
 * those that nobody has asked for yet are elsewhere, as the bytes of their records.
 */
export class NearTier {
  readonly #runs = new Map<string, Map<string, Run>>();
  readonly #answers: AnswerTable;
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #maxRunning: number;
  readonly #isStoreNear: boolean;
  readonly #unasked: UnaskedRecords | null;
  #running = 0;
  #evictions = 0;

  /**
   * With `secret` answers are spread, so that nobody outside can tell which keys would meet. `isStoreNear`: the store
   * is embedded in this process, so that what nobody has asked for need not be here as well.
   */
  constructor(options: NearTierOptions = {}, secret = '', isStoreNear = false) {
    this.#answers = new AnswerTable(secret);
    this.#isStoreNear = isStoreNear;
    this.#maxEntries = options.maxEntries ?? 100_000;
    this.#maxBytes = options.maxBytes ?? 64 * MIB;
    this.#maxRunning = options.maxRunning ?? 100_000;
    const isRoomy = this.#maxEntries >= ROOMY_ENTRIES && this.#maxBytes >= ROOMY_BYTES;
    const takesUnasked = isRoomy && !isStoreNear;
    this.#unasked = takesUnasked ? new UnaskedRecords(secret, this.#maxEntries) : null;
  }

  /**
   * A run of this process, whatever its fingerprint; a settled answer to this request whose retention has not ended; or
   * that there is one to another request. An answer counts as used, not as replayed.
   */
  find(
    id: OperationId,
    fingerprint: string,
    now: EpochMs,
  ): NearAnswer | Run | 'mismatch' | undefined {
    const slot = this.#answers.find(id, now);
    if (slot >= 0) {
      const isSame = this.#answers.fingerprintAt(slot) === fingerprint;
      return isSame ? this.#answers.answerAt(slot) : 'mismatch';
    }
    const run = this.#runs.get(id.scope)?.get(id.key);
    if (run !== undefined) return run;
    const answer = this.#unfold(id, now);
    if (answer === null) return undefined;
    return answer.fingerprint === fingerprint ? answer : 'mismatch';
  }

  /**
   * Begins a run that later arrivals of this process will find; there must be no answer that `find` would give. `null`:
   * the process is full.
   */
  begin(id: OperationId, fingerprint: string): Run | null {
    if (this.#running >= this.#maxRunning) return null;
    const run = new Run(id, fingerprint);
    let keys = this.#runs.get(id.scope);
    if (keys === undefined) {
      keys = new Map();
      this.#runs.set(id.scope, keys);
    }
    keys.set(id.key, run);
    this.#running += 1;
    return run;
  }

  /**
   * Ends a run and wakes everyone behind it. An answer is remembered, unless another run has begun meanwhile. With the
   * `record` that it has just written, which must hold the outcome as it is, and if nobody wants it now, it is kept as
   * the bytes of that, or left to a store that is near.
   */
  end(run: Run, by: RunEnd, record: Uint8Array | null = null): void {
    this.#running -= 1;
    const { scope, key } = run.id;
    const keys = this.#runs.get(scope);
    if (keys?.get(key) === run) {
      keys.delete(key);
      if (keys.size === 0) this.#runs.delete(scope);
      if (by instanceof NearAnswer && (record === null || !this.#leave(run, by, record))) {
        this.#keep(run.id, by);
      }
    }
    run.end(by);
  }

  /** Does nothing while a run of this process is under way: it ends with an answer of its own. */
  remember(id: OperationId, answer: NearAnswer): void {
    if (this.#runs.get(id.scope)?.has(id.key) !== true) this.#keep(id, answer);
  }

  forget(id: OperationId): void {
    this.#answers.remove(id);
    this.#unasked?.take(id, 0);
  }

  get size(): { answers: number; bytes: number; running: number; evictions: number } {
    return {
      answers: this.#answers.count + (this.#unasked?.count ?? 0),
      bytes: this.#answers.weight + (this.#unasked?.byteLength ?? 0),
      running: this.#running,
      evictions: this.#evictions,
    };
  }

  /** The first who asks for it makes the record an answer again. */
  #unfold(id: OperationId, now: EpochMs): NearAnswer | null {
    const bytes = this.#unasked?.take(id, now) ?? null;
    const record = bytes === null ? null : decodeRecord(id, bytes);
    if (record === null || !('outcome' in record)) return null;
    const { contentType, bytes: outcome } = record.outcome;
    const answer = new NearAnswer(record, { contentType, bytes: outcome });
    this.#keep(id, answer);
    return answer;
  }

  /** Nobody has asked for it: its record will do. `false`: somebody has, or there is no room for it as that. */
  #leave(run: Run, answer: NearAnswer, record: Uint8Array): boolean {
    if (run.isAwaited) return false;
    if (this.#isStoreNear) return true;
    if (this.#unasked?.put(run.id, record, answer.keepUntil) !== true) return false;
    this.#evict();
    return true;
  }

  #keep(id: OperationId, answer: NearAnswer): void {
    this.forget(id);
    const weight = ENTRY_BYTES + answer.outcome.bytes.length;
    if (weight > this.#maxBytes / 8) return;
    this.#answers.put(id, answer, weight);
    this.#evict();
  }

  /** What nobody has asked for goes first. */
  #evict(): void {
    for (;;) {
      const unasked = this.#unasked;
      const shelved = unasked?.byteLength ?? 0;
      const isTooMany = this.#answers.count + (unasked?.count ?? 0) > this.#maxEntries;
      if (!isTooMany && this.#answers.weight + shelved <= this.#maxBytes) return;
      if (unasked !== null && shelved > 0) {
        this.#evictions += unasked.dropOldest();
      } else {
        this.#answers.evictOne();
        this.#evictions += 1;
      }
    }
  }
}

/** What an entry costs beside its outcome: its slot, the key and the object. */
const ENTRY_BYTES = 256;

/** Records that nobody has asked for come and go by the shelf, which makes sense only where many shelves have room. */
const ROOMY_ENTRIES = 1_000;
const ROOMY_BYTES = MIB;
