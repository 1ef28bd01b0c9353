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
}

/** An operation that this process is running, or is trying to claim. Others gather here. */
export interface Run {
  readonly fingerprint: string;
  /** The store has granted the claim: only now is the fingerprint known to be the right one. */
  claimed: boolean;
  /** Settles with the answer, or with `null` when the run ended without one that is kept. */
  readonly ended: Promise<NearAnswer | null>;
}

interface OpenRun extends Run {
  end(answer: NearAnswer | null): void;
}

/**
 * The bounded memory before the store. It may answer what is settled, and gathers arrivals behind a run of this
 * process; it never says "absent" and never grants a claim: for both, the store is asked.
 *
 * Insertion order of the map is the order of use, so the first entry is the one to evict. Runs are kept apart and
 * are never evicted.
 */
export class NearTier {
  readonly #answers = new Map<string, NearAnswer>();
  readonly #runs = new Map<string, OpenRun>();
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
    this.#answers.delete(name);
    if (found.keepUntil <= now) {
      this.#bytes -= weigh(found);
      return undefined;
    }
    this.#answers.set(name, found);
    return found;
  }

  run(id: OperationId): Run | undefined {
    return this.#runs.get(nameOf(id));
  }

  /** Begins a run that later arrivals of this process will find. `null`: the process is full. */
  begin(id: OperationId, fingerprint: string): Run | null {
    if (this.#runs.size >= this.#maxRunning) return null;
    let end: OpenRun['end'] = ignoreAnswer;
    const ended = new Promise<NearAnswer | null>((resolve) => {
      end = resolve;
    });
    const run: OpenRun = { fingerprint, claimed: false, ended, end };
    this.#runs.set(nameOf(id), run);
    return run;
  }

  /** Ends a run and wakes everyone behind it, with the answer if there is one to give. */
  end(id: OperationId, run: Run, answer: NearAnswer | null): void {
    const name = nameOf(id);
    const open = this.#runs.get(name);
    if (open === run) this.#runs.delete(name);
    if (answer !== null) this.#remember(name, answer);
    (run as OpenRun).end(answer);
  }

  remember(id: OperationId, answer: NearAnswer): void {
    this.#remember(nameOf(id), answer);
  }

  forget(id: OperationId): void {
    const name = nameOf(id);
    const found = this.#answers.get(name);
    if (found !== undefined) {
      this.#answers.delete(name);
      this.#bytes -= weigh(found);
    }
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
    if (old !== undefined) {
      this.#answers.delete(name);
      this.#bytes -= weigh(old);
    }
    this.#answers.set(name, answer);
    this.#bytes += weight;
    while (this.#answers.size > this.#maxEntries || this.#bytes > this.#maxBytes) this.#evict();
  }

  #evict(): void {
    for (const [name, answer] of this.#answers) {
      this.#answers.delete(name);
      this.#bytes -= weigh(answer);
      this.#evictions += 1;
      return;
    }
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

function ignoreAnswer(): void {}
