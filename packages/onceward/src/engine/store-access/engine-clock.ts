import { StoreError } from '../errors.ts';
import type { EngineEvent } from '../events.ts';
import type { Time } from '../record/decide.ts';
import type { RecordStore } from '../record-store.ts';
import { type DurationMs, type EpochMs, SECOND } from '../units.ts';
import type { Timer, World } from '../world.ts';

const COMPARED_EVERY_MS = 30 * SECOND;
/** How often this process checks whether its own two clocks still go together. */
const LOOKS_EVERY_MS = 1 * SECOND;
/** A slower answer says too little: the process may have stood still on the way. */
const SLOWEST_ANSWER_MS = 1 * SECOND;
/** Nothing is decided without a first answer, so that one may be slower. */
const SLOWEST_FIRST_ANSWER_MS = 10 * SECOND;
/** How long an arrival waits for the first answer. */
const AWAITED_MS = 1 * SECOND;
/** Clocks that are further apart are reported. */
const TOLERATED_MS = 1 * SECOND;
/** More than rounding and slewing come to between two readings. */
const JUMPED_MS = 50;

export interface EngineClockParts {
  readonly world: World;
  readonly store: Pick<RecordStore, 'clock'>;
  /** Asks the store, bounded in time. Never throws but by rejecting. */
  ask(clock: () => Promise<EpochMs | null>, atMostMs: DurationMs): Promise<EpochMs | null>;
  /** Never throws: the clock is read in the background, where nobody could catch it. */
  observe(event: EngineEvent): void;
}

/** A clock that was read at some moment of the steady clock, and goes on with it. */
interface Reading {
  readonly at: EpochMs;
  readonly elapsed: DurationMs;
}

/**
 * The time that records are written and judged by. Processes that share a store agree on the store's clock, where it
 * has one. Each reads it when it starts and every half minute, and carries it on with its steady clock in between.
 *
 *   the shared clock   the store's; without one, the wall clock of this process
 *   leases             go by the shared clock
 *   retention          ends by the earlier, begins by the later of two: the shared clock, and the shared clock as it
 *                      was at the start, carried on by the steady clock
 *
 * So a process whose own clock is wrong does what all others do, and a shared clock that jumps makes no answer vanish.
 * Until the store's clock was read for the first time, arrivals are refused as if the store were down.
 */
export class EngineClock {
  readonly #parts: EngineClockParts;
  readonly #world: World;
  #started: Reading;
  #store: Reading | null = null;
  /** The store has a clock that could not be read yet. */
  #isUnread: boolean;
  /** How long the last reading took: the store's clock is so much further at most. */
  #uncertainMs: DurationMs = 0;
  /** How long a reading may take. Twice the first: a slow store must not be given up later. */
  #slowestMs: DurationMs = SLOWEST_FIRST_ANSWER_MS;
  /** Why the last reading failed. */
  #failure: unknown;
  /** Wall clock minus steady clock when the store's clock was read. */
  #offset = 0;
  #comparing: Promise<void> | null = null;
  #hasDisagreed = false;
  #timer: Timer | null = null;
  #closed = false;

  constructor(parts: EngineClockParts) {
    const { world, store } = parts;
    this.#parts = parts;
    this.#world = world;
    this.#started = { at: world.now(), elapsed: world.elapsed() };
    this.#isUnread = store.clock !== undefined;
    if (this.#isUnread) void this.compare();
  }

  /**
   * The store's clock was not read yet, or not since the wall clock jumped or the machine was suspended: wait for
   * `ready` before anything is decided or claimed.
   */
  get isUnknown(): boolean {
    return this.#isUnread || this.#hasJumped(this.#world.elapsed());
  }

  /** Fails unless the store's clock is known. */
  async ready(): Promise<void> {
    if (!this.isUnknown) return;
    await this.compare();
    if (!this.isUnknown) return;
    throw new StoreError(
      'ONCE_STORE_UNAVAILABLE',
      "the store's clock could not be read, so nothing can be decided by it",
      { applied: 'no', cause: this.#failure },
    );
  }

  /** What leases are written by: no process that judges them is further. */
  now(): EpochMs {
    if (this.#store === null) return this.#world.now();
    const elapsed = this.#world.elapsed();
    if (this.#hasJumped(elapsed)) void this.compare();
    return carriedOn(this.#store, elapsed) + this.#uncertainMs;
  }

  /** What records are judged by: the store's clock is not behind it. */
  time(): Time {
    if (this.#isUnread) return { leases: 0, retention: 0, latest: Number.POSITIVE_INFINITY };
    const elapsed = this.#world.elapsed();
    const leases = this.#shared(elapsed);
    const started = carriedOn(this.#started, elapsed);
    const latest = Math.max(leases, started) + this.#uncertainMs;
    return { leases, retention: Math.min(leases, started), latest };
  }

  /** What has expired by now may be forgotten. */
  retentionNow(): EpochMs {
    if (this.#isUnread) return 0;
    const elapsed = this.#world.elapsed();
    return Math.min(this.#shared(elapsed), carriedOn(this.#started, elapsed));
  }

  /** Retention that begins now is counted from here. */
  settlingNow(): EpochMs {
    return Math.max(this.now(), carriedOn(this.#started, this.#world.elapsed()));
  }

  #shared(elapsed: DurationMs): EpochMs {
    return this.#store === null ? this.#world.now() : carriedOn(this.#store, elapsed);
  }

  /** Reads the store's clock, unless somebody does so already. Never rejects. */
  compare(): Promise<void> {
    this.#comparing ??= this.#compare().finally(() => {
      this.#comparing = null;
      this.#schedule();
    });
    return this.#comparing;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** A first answer that is slow is waited for, but may also be lost: so another is asked for after a while. */
  async #compare(): Promise<void> {
    if (!this.isUnknown) return this.#read();
    let timer: Timer | null = null;
    const over = new Promise<void>((resolve) => {
      timer = this.#world.startTimer(AWAITED_MS, resolve, true);
    });
    await Promise.race([this.#read(), over]);
    (timer as Timer | null)?.cancel();
  }

  async #read(): Promise<void> {
    const { store, ask } = this.#parts;
    const began = this.#world.elapsed();
    const wallBegan = this.#world.now();
    let read: EpochMs | null;
    try {
      read = await ask(() => store.clock!(), this.#slowestMs);
    } catch (error) {
      this.#failure = error;
      return;
    }
    const elapsed = this.#world.elapsed();
    const isOvertaken = this.#store !== null && this.#store.elapsed > began;
    if (isOvertaken) return;
    if (read === null) this.#isUnread = false;
    else if (!Number.isFinite(read)) this.#failure = new Error(`the store says that it is ${read}`);
    else {
      // The steady clock may have stopped on the way, with the machine.
      const tookMs = Math.max(elapsed - began, this.#world.now() - wallBegan);
      if (tookMs <= this.#slowestMs) this.#adopt(read, tookMs, elapsed);
    }
  }

  /** The answer was true at some moment since it was asked for. */
  #adopt(read: EpochMs, tookMs: DurationMs, elapsed: DurationMs): void {
    const wall = this.#world.now();
    const reading = { at: Math.floor(read), elapsed };
    if (this.#store === null) {
      this.#started = reading;
      this.#slowestMs = Math.min(Math.max(SLOWEST_ANSWER_MS, 2 * tookMs), SLOWEST_FIRST_ANSWER_MS);
    }
    this.#store = reading;
    this.#isUnread = false;
    this.#uncertainMs = tookMs;
    this.#offset = wall - elapsed;
    const aheadMs = wall - Math.floor(read);
    const disagrees = aheadMs < -TOLERATED_MS || aheadMs > TOLERATED_MS + tookMs;
    if (disagrees) this.#parts.observe({ type: 'clock_skew', aheadMs });
    else if (this.#hasDisagreed) this.#parts.observe({ type: 'clock_skew', aheadMs: 0 });
    this.#hasDisagreed = disagrees;
  }

  #schedule(): void {
    this.#timer?.cancel();
    const isAlone = this.#store === null && !this.#isUnread;
    if (this.#closed || isAlone) return;
    this.#timer = this.#world.startTimer(LOOKS_EVERY_MS, () => {
      if (this.#isCompareDue()) void this.compare();
      else this.#schedule();
    });
  }

  #isCompareDue(): boolean {
    if (this.#store === null) return true;
    const elapsed = this.#world.elapsed();
    const age = elapsed - this.#store.elapsed;
    return age >= COMPARED_EVERY_MS || this.#hasJumped(elapsed);
  }

  /** Wall clock and steady clock have moved apart since the store's was read: one was set, or the other stopped. */
  #hasJumped(elapsed: DurationMs): boolean {
    if (this.#store === null) return false;
    return Math.abs(this.#world.now() - elapsed - this.#offset) > JUMPED_MS;
  }
}

function carriedOn({ at, elapsed }: Reading, now: DurationMs): EpochMs {
  return at + (now - elapsed);
}
