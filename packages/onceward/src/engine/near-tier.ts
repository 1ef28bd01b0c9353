import type { Refusal } from './operation.ts';
import type { OperationId, Outcome, SettledState } from './record.ts';
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
export interface NearAnswer {
  readonly fingerprint: string;
  readonly state: SettledState;
  readonly outcome: Outcome;
  readonly attempt: number;
  readonly owner: string;
  readonly settledAt: EpochMs;
  readonly keepUntil: EpochMs;
  /** How often this process has given it. */
  replays: number;
  /** Looked up since it last stood first in the line for eviction. */
  used: boolean;
}

/**
 * What a run leaves to those behind it: its answer; the refusal of a store that did not answer, which they would only
 * meet again one after the other; or nothing, and each finds out for itself.
 */
export type RunEnd = NearAnswer | Refusal | null;

/** An operation that this process is running, or is trying to claim. Others gather here. */
export class Run {
  readonly fingerprint: string;
  /** The store has granted the claim: only now is the fingerprint known to be the right one. */
  claimed = false;
  #ended: { readonly by: RunEnd } | null = null;
  #waiting: ((end: RunEnd) => void)[] | null = null;

  constructor(fingerprint: string) {
    this.fingerprint = fingerprint;
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
 * The map's order is the order of eviction. An answer that was used since it came up last is given a second chance,
 * at the end: a look-up only sets a mark. Runs are kept apart and are never evicted.
 */
export class NearTier {
  readonly #answers = new Map<string, NearAnswer>();
  readonly #runs = new Map<string, Run>();
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #maxRunning: number;
  #bytes = 0;
  #evictions = 0;

  constructor(options: NearTierOptions = {}) {
    this.#maxEntries = options.maxEntries ?? 100_000;
    this.#maxBytes = options.maxBytes ?? 64 * MIB;
    this.#maxRunning = options.maxRunning ?? 100_000;
  }

  /** A settled answer whose retention has not ended. Counts as a use, not as a replay. */
  answer(id: OperationId, now: EpochMs): NearAnswer | undefined {
    const name = nameOf(id);
    const found = this.#answers.get(name);
    if (found === undefined) return undefined;
    if (found.keepUntil <= now) {
      this.#drop(name, found);
      return undefined;
    }
    found.used = true;
    return found;
  }

  run(id: OperationId): Run | undefined {
    return this.#runs.get(nameOf(id));
  }

  /** Begins a run that later arrivals of this process will find. `null`: the process is full. */
  begin(id: OperationId, fingerprint: string): Run | null {
    if (this.#runs.size >= this.#maxRunning) return null;
    const run = new Run(fingerprint);
    this.#runs.set(nameOf(id), run);
    return run;
  }

  /** Ends a run and wakes everyone behind it. An answer is remembered. */
  end(id: OperationId, run: Run, by: RunEnd): void {
    const name = nameOf(id);
    if (this.#runs.get(name) === run) this.#runs.delete(name);
    if (by !== null && !('reason' in by)) this.#remember(name, by);
    run.end(by);
  }

  remember(id: OperationId, answer: NearAnswer): void {
    this.#remember(nameOf(id), answer);
  }

  forget(id: OperationId): void {
    const name = nameOf(id);
    const found = this.#answers.get(name);
    if (found !== undefined) this.#drop(name, found);
  }

  get size(): { answers: number; bytes: number; running: number; evictions: number } {
    return {
      answers: this.#answers.size,
      bytes: this.#bytes,
      running: this.#runs.size,
      evictions: this.#evictions,
    };
  }

  #remember(name: string, answer: NearAnswer): void {
    const weight = weigh(answer);
    if (weight > this.#maxBytes / 8) return;
    const old = this.#answers.get(name);
    if (old !== undefined) this.#drop(name, old);
    this.#answers.set(name, answer);
    this.#bytes += weight;
    if (this.#answers.size > this.#maxEntries || this.#bytes > this.#maxBytes) this.#evict();
  }

  /**
   * Makes room for a few more than the one that is one too many: a map walks over all that was deleted before it
   * finds its first entry, so that walk had better serve many.
   */
  #evict(): void {
    const entries = this.#maxEntries - (this.#maxEntries >> 5);
    const bytes = this.#maxBytes - this.#maxBytes / 32;
    for (const [name, answer] of this.#answers) {
      if (this.#answers.size <= entries && this.#bytes <= bytes) return;
      if (answer.used) {
        answer.used = false;
        this.#answers.delete(name);
        this.#answers.set(name, answer);
      } else {
        this.#drop(name, answer);
        this.#evictions += 1;
      }
    }
  }

  #drop(name: string, answer: NearAnswer): void {
    this.#answers.delete(name);
    this.#bytes -= weigh(answer);
  }
}

/** What an entry costs beside its outcome: the map slot, the name and the object. */
const ENTRY_BYTES = 256;

function weigh(answer: NearAnswer): number {
  return ENTRY_BYTES + answer.outcome.bytes.length;
}

/** Neither part may hold a NUL (`input.ts`), so two ids never share a name. */
function nameOf(id: OperationId): string {
  return `${id.scope}\0${id.key}`;
}
