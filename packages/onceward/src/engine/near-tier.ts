import type { Refusal } from './operation.ts';
import type { OperationId, Outcome, SettledRecord, SettledState } from './record.ts';
import { type EpochMs, MIB } from './units.ts';

export interface NearTierOptions {
  /** Settled answers remembered at most. */
  readonly maxEntries?: number;
  /** Bytes of outcomes remembered at most. */
  readonly maxBytes?: number;
  /** Operations that may run in this process at once; one more is refused as over quota. */
  readonly maxRunning?: number;
}

/** A settled answer, ready to be given again. It is its own entry in the near tier: one object to find, not two. */
export class NearAnswer {
  // What a look-up touches comes first, to lie on one line of the processor's cache.
  readonly fingerprint: string;
  /** `keepUntil`, as the near tier counts. */
  ends = 0;
  /** Looked up since it last stood first in the line for eviction. */
  used = false;
  /** How often this process has given it. */
  replays = 0;
  readonly outcome: Outcome;
  readonly state: SettledState;
  readonly attempt: number;
  readonly owner: string;
  readonly settledAt: EpochMs;
  readonly keepUntil: EpochMs;
  /** Where it is remembered; `null`: nowhere. */
  place: Place | null = null;
  before: NearAnswer | null = null;
  after: NearAnswer | null = null;

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

/** All that is near of one scope, by key. */
type Keys = Map<string, NearAnswer | Run>;

interface Place {
  readonly scope: string;
  readonly key: string;
  readonly keys: Keys;
}

/**
 * What a run leaves to those behind it: its answer; the refusal of a store that did not answer, which they would only
 * meet again one after the other; or nothing, and each finds out for itself.
 */
export type RunEnd = NearAnswer | Refusal | null;

/** An operation that this process is running, or is trying to claim. Others gather here. */
export class Run {
  readonly fingerprint: string;
  readonly place: Place;
  /** The store has granted the claim: only now is the fingerprint known to be the right one. */
  claimed = false;
  #ended: { readonly by: RunEnd } | null = null;
  #waiting: ((end: RunEnd) => void)[] | null = null;

  constructor(fingerprint: string, place: Place) {
    this.fingerprint = fingerprint;
    this.place = place;
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
 * A map of keys for each scope: joining scope and key into one name would cost more than finding it. Answers stand in
 * a line for eviction. One that was used since it came up last is given a second chance, at the end: a look-up only
 * sets a mark. Runs are in no line and are never evicted.
 */
export class NearTier {
  readonly #scopes = new Map<string, Keys>();
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #maxRunning: number;
  #first: NearAnswer | null = null;
  #last: NearAnswer | null = null;
  /** Ends are counted from here: a small whole number lies in the entry, a large one in an object beside it. */
  #epoch: EpochMs | null = null;
  #answers = 0;
  #running = 0;
  #bytes = 0;
  #evictions = 0;

  constructor(options: NearTierOptions = {}) {
    this.#maxEntries = options.maxEntries ?? 100_000;
    this.#maxBytes = options.maxBytes ?? 64 * MIB;
    this.#maxRunning = options.maxRunning ?? 100_000;
  }

  /** A run of this process, or a settled answer whose retention has not ended. Counts as a use, not as a replay. */
  find(id: OperationId, now: EpochMs): NearAnswer | Run | undefined {
    const found = this.#scopes.get(id.scope)?.get(id.key);
    if (found === undefined || found instanceof Run) return found;
    if (found.ends <= now - this.#epoch!) {
      this.#drop(found);
      return undefined;
    }
    found.used = true;
    return found;
  }

  answer(id: OperationId, now: EpochMs): NearAnswer | undefined {
    const found = this.find(id, now);
    return found instanceof Run ? undefined : found;
  }

  /** Begins a run that later arrivals of this process will find. `null`: the process is full. */
  begin(id: OperationId, fingerprint: string): Run | null {
    if (this.#running >= this.#maxRunning) return null;
    const { scope, key } = id;
    const keys = this.#keysOf(scope);
    const old = keys.get(key);
    if (old instanceof NearAnswer) this.#leaveLine(old);
    const run = new Run(fingerprint, { scope, key, keys });
    keys.set(key, run);
    this.#running += 1;
    return run;
  }

  /** Ends a run and wakes everyone behind it. An answer is remembered, unless another run has begun meanwhile. */
  end(run: Run, by: RunEnd): void {
    this.#running -= 1;
    const { place } = run;
    if (place.keys.get(place.key) === run) {
      if (by instanceof NearAnswer && by.place === null) this.#settle(place, by);
      else this.#remove(place);
    }
    run.end(by);
  }

  /** Does nothing while a run of this process is under way: it ends with an answer of its own. */
  remember({ scope, key }: OperationId, answer: NearAnswer): void {
    const keys = this.#keysOf(scope);
    const old = keys.get(key);
    if (old instanceof Run) return;
    if (old !== undefined) this.#leaveLine(old);
    this.#settle({ scope, key, keys }, answer);
  }

  forget(id: OperationId): void {
    const found = this.#scopes.get(id.scope)?.get(id.key);
    if (found instanceof NearAnswer) this.#drop(found);
  }

  get size(): { answers: number; bytes: number; running: number; evictions: number } {
    return {
      answers: this.#answers,
      bytes: this.#bytes,
      running: this.#running,
      evictions: this.#evictions,
    };
  }

  #keysOf(scope: string): Keys {
    let keys = this.#scopes.get(scope);
    if (keys === undefined) {
      keys = new Map();
      this.#scopes.set(scope, keys);
    }
    return keys;
  }

  #settle(place: Place, answer: NearAnswer): void {
    const weight = weigh(answer);
    if (weight > this.#maxBytes / 8) {
      this.#remove(place);
      return;
    }
    this.#epoch ??= answer.settledAt;
    answer.place = place;
    answer.ends = Math.floor(answer.keepUntil - this.#epoch);
    place.keys.set(place.key, answer);
    this.#answers += 1;
    this.#bytes += weight;
    this.#standLast(answer);
    while (this.#answers > this.#maxEntries || this.#bytes > this.#maxBytes) this.#evictOne();
  }

  #evictOne(): void {
    const first = this.#first!;
    if (first.used) {
      first.used = false;
      this.#unlink(first);
      this.#standLast(first);
    } else {
      this.#drop(first);
      this.#evictions += 1;
    }
  }

  #drop(answer: NearAnswer): void {
    const { place } = answer;
    this.#leaveLine(answer);
    this.#remove(place!);
  }

  #remove({ scope, key, keys }: Place): void {
    keys.delete(key);
    if (keys.size === 0) this.#scopes.delete(scope);
  }

  #leaveLine(answer: NearAnswer): void {
    this.#unlink(answer);
    answer.place = null;
    this.#answers -= 1;
    this.#bytes -= weigh(answer);
  }

  #standLast(answer: NearAnswer): void {
    answer.before = this.#last;
    if (this.#last === null) this.#first = answer;
    else this.#last.after = answer;
    this.#last = answer;
  }

  #unlink(answer: NearAnswer): void {
    const { before, after } = answer;
    if (before === null) this.#first = after;
    else before.after = after;
    if (after === null) this.#last = before;
    else after.before = before;
    answer.before = null;
    answer.after = null;
  }
}

/** What an entry costs beside its outcome: the map slot, the key and the object. */
const ENTRY_BYTES = 256;

function weigh(answer: NearAnswer): number {
  return ENTRY_BYTES + answer.outcome.bytes.length;
}
