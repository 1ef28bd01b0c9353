import type { Refusal } from '../operation.ts';
import type { OperationId, Outcome, SettledRecord, SettledState } from '../record.ts';
import { type EpochMs, MIB } from '../units.ts';
import { AnswerTable } from './answer-table.ts';

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
  #claimed = false;
  #ended: { readonly by: RunEnd } | null = null;
  #waiting: ((end: RunEnd) => void)[] | null = null;
  #waitingForClaim: (() => void)[] | null = null;

  constructor(id: OperationId, fingerprint: string) {
    this.id = id;
    this.fingerprint = fingerprint;
  }

  /** The store has granted the claim: only now is the fingerprint known to be the right one. */
  get claimed(): boolean {
    return this.#claimed;
  }

  /** The effect is about to run. Until then it may turn out that all there is to do is to give an answer again. */
  markClaimed(): void {
    this.#claimed = true;
    this.#wakeForClaim();
  }

  /** Called when the claim is granted, or the run has ended without one. */
  whenDecided(callback: () => void): void {
    if (this.#claimed || this.#ended !== null) {
      callback();
      return;
    }
    this.#waitingForClaim ??= [];
    this.#waitingForClaim.push(callback);
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
    this.#wakeForClaim();
    if (this.#waiting === null) return;
    for (const callback of this.#waiting) callback(by);
    this.#waiting = null;
  }

  #wakeForClaim(): void {
    if (this.#waitingForClaim === null) return;
    for (const callback of this.#waitingForClaim) callback();
    this.#waitingForClaim = null;
  }
}

/**
 * The bounded memory before the store. It may answer what is settled, and gathers arrivals behind a run of this
 * process; it never says "absent" and never grants a claim: for both, the store is asked.
 *
 * Runs are few and in maps, by scope and by key: they are never evicted. Answers are in a table, and only those that
 * somebody has asked for a second time: nearly all never are, and the store has them.
 */
export class NearTier {
  readonly #runs = new Map<string, Map<string, Run>>();
  readonly #answers: AnswerTable;
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #maxRunning: number;
  #running = 0;
  #evictions = 0;

  /** With `secret`, nobody outside can find out which keys collide. */
  constructor(options: NearTierOptions = {}, secret = '') {
    this.#answers = new AnswerTable(secret);
    this.#maxEntries = options.maxEntries ?? 100_000;
    this.#maxBytes = options.maxBytes ?? 64 * MIB;
    this.#maxRunning = options.maxRunning ?? 100_000;
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
    return this.#runs.get(id.scope)?.get(id.key);
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

  /** Ends a run and wakes everyone behind it. An answer is remembered, unless another run has begun meanwhile. */
  end(run: Run, by: RunEnd): void {
    this.#running -= 1;
    const { scope, key } = run.id;
    const keys = this.#runs.get(scope);
    if (keys?.get(key) === run) {
      keys.delete(key);
      if (keys.size === 0) this.#runs.delete(scope);
      if (by instanceof NearAnswer) this.#keep(run.id, by);
    }
    run.end(by);
  }

  /** Does nothing while a run of this process is under way: it ends with an answer of its own. */
  remember(id: OperationId, answer: NearAnswer): void {
    if (this.#runs.get(id.scope)?.has(id.key) !== true) this.#keep(id, answer);
  }

  forget(id: OperationId): void {
    this.#answers.remove(id);
  }

  get size(): { answers: number; bytes: number; running: number; evictions: number } {
    return {
      answers: this.#answers.count,
      bytes: this.#answers.weight,
      running: this.#running,
      evictions: this.#evictions,
    };
  }

  #keep(id: OperationId, answer: NearAnswer): void {
    this.forget(id);
    const weight = ENTRY_BYTES + answer.outcome.bytes.length;
    if (weight > this.#maxBytes / 8) return;
    this.#answers.put(id, answer, weight);
    while (this.#answers.count > this.#maxEntries || this.#answers.weight > this.#maxBytes) {
      this.#answers.evictOne();
      this.#evictions += 1;
    }
  }
}

/** What an entry costs beside its outcome: its slot, the key and the object. */
const ENTRY_BYTES = 256;
