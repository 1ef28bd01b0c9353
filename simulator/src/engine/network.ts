import { StoreError } from 'onceward';
import { Dice } from '../dice.ts';
import { EPOCH, type Life } from './life.ts';
import type { Plan, Silence, StoreFault } from './plan.ts';
import type { Scheduler } from './scheduler.ts';

/** What a request does when it arrives. It answers at once, later, or never. */
export type Request<T> = (reply: (value: T) => void, fail: (error: StoreError) => void) => void;

/** The way from the processes to the store and back: latency, and the faults of the plan. */
export class Network {
  readonly #plan: Plan;
  readonly #scheduler: Scheduler;
  readonly #tell: (text: string) => void;
  readonly #calls: number[];
  readonly #transactions: number[];
  readonly #silences = new Map<string, Silence>();
  readonly #faults = new Map<string, StoreFault>();
  readonly #funerals = new Map<Life, (() => void)[]>();
  /** When something last went wrong, or clocks last jumped. */
  disturbedAt = Number.NEGATIVE_INFINITY;

  constructor(plan: Plan, scheduler: Scheduler, tell: (text: string) => void) {
    this.#plan = plan;
    this.#scheduler = scheduler;
    this.#tell = tell;
    this.#calls = plan.processes.map(() => 0);
    this.#transactions = plan.processes.map(() => 0);
    for (const event of plan.events) {
      if (event.kind === 'silence') {
        this.#silences.set(`${event.process} ${event.transaction}`, event.silence);
      }
      if (event.kind === 'store_fault') {
        this.#faults.set(`${event.process} ${event.call}`, event.fault);
      }
    }
  }

  get storeClock(): number {
    return EPOCH + this.#scheduler.now;
  }

  disturb(untilMs = this.#scheduler.now): void {
    this.disturbedAt = Math.max(this.disturbedAt, untilMs);
  }

  /** What becomes of the next connection for a transaction. */
  connect(life: Life): Silence | null {
    const number = (this.#transactions[life.process] ?? 0) + 1;
    this.#transactions[life.process] = number;
    if (this.#scheduler.now >= this.#plan.healAt) return null;
    const silence = this.#silences.get(`${life.process} ${number}`) ?? null;
    if (silence === null) return null;
    this.disturb(this.#plan.healAt);
    this.#tell(`transaction ${number} of ${life.token}: silent from ${silence.statement} on`);
    return silence;
  }

  /** A statement of a transaction. It ends with its connection, so nothing of it is ever sent again. */
  callOnce<T>(life: Life, request: Request<T>): Promise<T> {
    let arrived = false;
    return this.call<T>(life, (reply, fail) => {
      if (arrived) return;
      arrived = true;
      request(reply, fail);
    });
  }

  /** A request on a connection from which nothing comes back. */
  callIntoSilence<T>(life: Life, delivered: boolean, request: Request<T>): Promise<T> {
    if (delivered) this.send(life, () => request(ignore, ignore));
    return new Promise(() => {});
  }

  /** `nonsense`: what a store with a mistake in it might answer. */
  call<T>(life: Life, request: Request<T>, nonsense?: T): Promise<T> {
    const call = this.#count(life);
    const dice = new Dice(this.#plan.seed, 2, life.process, call);
    const fault = this.#faultOf(life, call);
    if (fault !== null) {
      this.disturb(this.#scheduler.now + ('byMs' in fault ? fault.byMs : 0));
      this.#tell(`call ${call} of ${life.token}: ${fault.as}`);
    }
    return new Promise<T>((resolve, reject) => {
      const back = (deliver: () => void) =>
        this.#scheduler.after(this.#latency(dice) + (fault?.as === 'slow' ? fault.byMs : 0), () =>
          life.deliver(deliver),
        );
      const hang = fault !== null && 'silent' in fault && fault.silent;
      const breakDown = () => {
        if (!hang) back(() => reject(unavailable('unknown')));
      };
      if (fault?.as === 'refused') {
        back(() => reject(unavailable('no')));
        return;
      }
      if (fault?.as === 'nonsense') {
        if (fault.rejects || nonsense === undefined) back(() => reject(undefined));
        else back(() => resolve(nonsense));
        return;
      }
      if (fault?.as === 'lost_request') {
        breakDown();
        return;
      }
      if (fault?.as === 'late') breakDown();
      const lateBy = fault?.as === 'late' ? fault.byMs : 0;
      this.#scheduler.after(this.#latency(dice) + lateBy, () => {
        // An embedded store dies with its process: what was not yet applied never will be.
        if (this.#plan.store.embedded && !life.alive) return;
        if (fault?.as === 'late') request(ignore, ignore);
        else if (fault?.as === 'repeated') {
          request(ignore, ignore);
          this.#scheduler.after(fault.byMs, () => {
            if (this.#plan.store.embedded && !life.alive) return;
            request(
              (value) => back(() => resolve(value)),
              (error) => back(() => reject(error)),
            );
          });
        } else if (fault?.as === 'lost_reply') request(breakDown, breakDown);
        else {
          request(
            (value) => back(() => resolve(value)),
            (error) => back(() => reject(error)),
          );
        }
      });
    });
  }

  later(ms: number, run: () => void): void {
    this.#scheduler.after(ms, run);
  }

  /** A message without a reply. */
  send(life: Life, request: () => void): void {
    const dice = new Dice(this.#plan.seed, 2, life.process, this.#count(life));
    this.#scheduler.after(this.#latency(dice), request);
  }

  /** Runs when the life is over, to clean up after it. */
  whenGone(life: Life, afterMs: number, run: () => void): void {
    const funerals = this.#funerals.get(life) ?? [];
    funerals.push(() => this.#scheduler.after(afterMs, run));
    this.#funerals.set(life, funerals);
  }

  bury(life: Life): void {
    for (const run of this.#funerals.get(life) ?? []) run();
    this.#funerals.delete(life);
  }

  #count(life: Life): number {
    const call = (this.#calls[life.process] ?? 0) + 1;
    this.#calls[life.process] = call;
    return call;
  }

  #latency(dice: Dice): number {
    const { latencyMs } = this.#plan.store;
    return latencyMs === 0 ? 0 : dice.unit() * latencyMs;
  }

  #faultOf(life: Life, call: number): StoreFault | null {
    const { now } = this.#scheduler;
    if (now >= this.#plan.healAt) return null;
    const planned = this.#faults.get(`${life.process} ${call}`);
    if (planned !== undefined) return planned;
    for (const event of this.#plan.events) {
      if (event.kind !== 'outage' || now < event.at || now >= event.at + event.forMs) continue;
      if (event.process === null || event.process === life.process) return event.fault;
    }
    return null;
  }
}

function unavailable(applied: 'no' | 'unknown'): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', 'the simulated network failed', { applied });
}

function ignore(): void {}
