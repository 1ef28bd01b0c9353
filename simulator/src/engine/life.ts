import type { World } from 'onceward';
import type { Scheduler } from './scheduler.ts';

/** Thrown at a crash point. Its catcher belongs to a process that is dead already. */
export class Halted extends Error {
  override readonly name = 'Halted';
}

/** Virtual time 0 as a date. Any will do; a real-looking one finds units mixed up. */
export const EPOCH = 1_700_000_000_000;

export interface LifeOptions {
  readonly process: number;
  readonly number: number;
  readonly scheduler: Scheduler;
  /** How far the wall clock of this machine is off. */
  readonly skewMs: number;
  readonly hasStoreClock: boolean;
  readonly random: () => number;
  /** Whether the process dies at the nth crash point that it passes. */
  readonly diesAt: (name: string) => boolean;
}

/**
 * One life of a process: its clocks, its timers and its death. Whatever is to happen inside the process goes through
 * `deliver`, which drops it when the process is dead and holds it while the process is stalled.
 */
interface Reading {
  readonly offset: number;
  readonly at: number;
}

export class Life {
  readonly process: number;
  readonly number: number;
  /** The engine of this life names its attempts after it. */
  readonly token: string;
  readonly world: World;
  readonly bornAt: number;
  /** The latest time that this life has seen; leases lapse by this clock. */
  latestWall = 0;
  /** The same for the clock that retention goes by. */
  latestRetention = 0;
  /** For an embedded store: what lies below was written by lives before this one. */
  firstRevision: number | null = null;
  /** The steady clock has missed some time: the machine was suspended. */
  missedMs = 0;
  /** When it was last suspended, and what retention went by when it woke: less than while it slept. */
  woken = { at: -1, retention: 0 };
  readonly #scheduler: Scheduler;
  readonly #random: () => number;
  readonly #diesAt: (name: string) => boolean;
  readonly #bornWall: number;
  readonly #hasStoreClock: boolean;
  /** The store's clock when the steady one was at 0, as it was read first and last. */
  #firstReading: Reading | null = null;
  #lastReading: Reading | null = null;
  #slowestClockMs = 10_000;
  #offsetMs: number;
  #alive = true;
  #held: (() => void)[] | null = null;
  #heldSince = 0;

  constructor(options: LifeOptions) {
    this.process = options.process;
    this.number = options.number;
    this.token = `p${options.process}l${options.number}`;
    this.#scheduler = options.scheduler;
    this.#random = options.random;
    this.#diesAt = options.diesAt;
    this.#hasStoreClock = options.hasStoreClock;
    this.#offsetMs = options.skewMs;
    this.bornAt = options.scheduler.now;
    this.#bornWall = this.wall;
    this.world = this.#makeWorld();
  }

  get alive(): boolean {
    return this.#alive;
  }

  get paused(): boolean {
    return this.#held !== null;
  }

  get wall(): number {
    return EPOCH + this.#scheduler.now + this.#offsetMs;
  }

  get elapsed(): number {
    return this.#scheduler.now - this.bornAt - this.missedMs;
  }

  /** What retention goes by: no clock may make it shorter. Without a reading of the store's, nothing ends. */
  get retention(): number {
    if (!this.#hasStoreClock) return Math.min(this.wall, this.#bornWall + this.elapsed);
    if (this.#firstReading === null || this.#lastReading === null) return 0;
    return Math.min(this.#firstReading.offset, this.#lastReading.offset) + this.elapsed;
  }

  /** What the store's clock said, in an answer that took so long. The engine's clock takes the same ones. */
  noteStoreClock(time: number, tookMs: number): void {
    const reading = { offset: time - this.elapsed, at: this.elapsed };
    const isOvertaken = this.#lastReading !== null && this.#lastReading.at > reading.at - tookMs;
    if (tookMs > this.#slowestClockMs || isOvertaken) return;
    if (this.#firstReading === null) {
      this.#firstReading = reading;
      this.#slowestClockMs = Math.max(1_000, 2 * tookMs);
    }
    this.#lastReading = reading;
  }

  jump(byMs: number): void {
    this.#offsetMs += byMs;
  }

  /** The clock is set right again. */
  setClock(offsetMs: number): void {
    this.#offsetMs = offsetMs;
  }

  crash(): void {
    this.#alive = false;
    this.#held = null;
  }

  pause(): void {
    if (this.#held !== null) return;
    this.#held = [];
    this.#heldSince = this.#scheduler.now;
  }

  /** What was held happens now, in its order, but not all in one breath. */
  resume(steadyStopped: boolean): void {
    const held = this.#held;
    if (held === null || !this.#alive) return;
    if (steadyStopped) {
      this.missedMs += this.#scheduler.now - this.#heldSince;
      this.woken = { at: this.#scheduler.now, retention: this.retention };
    }
    this.#held = null;
    for (const run of held) this.#scheduler.after(0, () => this.deliver(run));
  }

  deliver(run: () => void): void {
    if (!this.#alive) return;
    if (this.#held !== null) this.#held.push(run);
    else run();
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.world.startTimer(ms, resolve);
    });
  }

  #makeWorld(): World {
    return {
      now: () => {
        const wall = this.wall;
        if (wall > this.latestWall) this.latestWall = wall;
        this.latestRetention = Math.max(this.latestRetention, this.retention);
        return wall;
      },
      elapsed: () => {
        this.latestRetention = Math.max(this.latestRetention, this.retention);
        return this.elapsed;
      },
      random: this.#random,
      token: () => this.token,
      startTimer: (ms, callback) => {
        const timer = this.#scheduler.after(ms, () => {
          this.deliver(() => {
            if (!timer.cancelled) callback();
          });
        });
        return {
          cancel: () => {
            timer.cancelled = true;
          },
        };
      },
      crashPoint: (name) => {
        if (this.#alive && !this.#diesAt(name)) return;
        throw new Halted(name);
      },
    };
  }
}
