import { Engine } from 'onceward';
import { Dice, mixed } from '../dice.ts';
import { callExecute, callTransaction } from './callers.ts';
import { closeDown } from './closing.ts';
import type { Call, CaseFile } from './judge/case-file.ts';
import { Judge, type Violation } from './judge/judge.ts';
import { simulatedPlatform } from './judge/outcome-text.ts';
import { Life } from './life.ts';
import { Network } from './network.ts';
import { callOnce } from './once-caller.ts';
import { OneFile } from './one-file.ts';
import { operate } from './operator.ts';
import type { Arrival, Plan, PlannedEvent } from './plan.ts';
import { RecordTable } from './record-table.ts';
import { callReserve } from './reserver.ts';
import { RowLocks } from './row-locks.ts';
import { Scheduler } from './scheduler.ts';
import { StoreLink } from './store-link.ts';

export interface Running {
  readonly life: Life;
  readonly engine: Engine;
  readonly store: StoreLink;
}

export interface Told {
  readonly at: number;
  readonly text: string;
}

/** What went wrong longer ago is over. */
const LONGEST_FAULT_MS = 3_000;
/** A world that has not ended by then never will. */
const MOST_STEPS = 100_000;
/** Nor is there so much to do at once. */
const MOST_OF_A_MOMENT = 5_000;

/** One world from its plan to its end. `step` moves it on; nothing in it happens by itself. */
export class Simulation {
  readonly plan: Plan;
  readonly scheduler = new Scheduler();
  readonly judge: Judge;
  readonly table: RecordTable;
  readonly network: Network;
  readonly trace: Told[] = [];
  readonly calls: Call[] = [];
  readonly #locks = new RowLocks();
  readonly #file: OneFile;
  readonly #running: (Running | null)[];
  readonly #lives: number[];
  readonly #passed: number[];
  readonly #downstreamKeys = new Map<string, CaseFile>();
  readonly #traced: boolean;
  #steps = 0;
  #stepsOfMoment = 0;
  #over = false;

  constructor(plan: Plan, options: { readonly traced: boolean }) {
    this.plan = plan;
    this.#traced = options.traced;
    const tell = (text: string) => this.tell(text);
    this.network = new Network(plan, this.scheduler, tell);
    const clock = { now: () => this.scheduler.now, calmSince: () => this.network.disturbedAt };
    this.judge = new Judge(plan, clock, tell);
    this.table = new RecordTable(this.scheduler, (write) => this.judge.seeWrite(write));
    this.#file = new OneFile(this.scheduler, plan.seed);
    this.#running = plan.processes.map(() => null);
    this.#lives = plan.processes.map(() => 0);
    this.#passed = plan.processes.map(() => 0);
    for (const process of plan.processes.keys()) this.#start(process);
    for (const event of plan.events) this.#schedule(event);
    this.scheduler.at(plan.healAt, () => this.#heal());
    closeDown(this, () => {
      this.#over = true;
    });
  }

  get violation(): Violation | null {
    return this.judge.violation;
  }

  /** Lets one thing happen. False: the world has ended. Microtasks must have run out between two steps. */
  step(): boolean {
    if (this.#over || this.violation !== null) return false;
    this.#steps += 1;
    if (this.#steps > MOST_STEPS) this.judge.complain('the world does not come to rest', null);
    const before = this.scheduler.now;
    const isOn = this.scheduler.step();
    this.#stepsOfMoment = this.scheduler.now === before ? this.#stepsOfMoment + 1 : 0;
    if (this.#stepsOfMoment > MOST_OF_A_MOMENT) this.judge.complain('time does not go on', null);
    return isOn;
  }

  tell(text: string): void {
    if (this.#traced) this.trace.push({ at: this.scheduler.now, text });
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.scheduler.after(ms, resolve);
    });
  }

  /** Nothing is planned to go wrong. */
  get isFaultless(): boolean {
    return this.plan.events.every(({ kind }) => kind === 'arrive' || kind === 'burst');
  }

  running(process: number): Running | null {
    return this.#running[process] ?? null;
  }

  /** Complains unless the call ends within this time, thrice: a stalled process is late with everything. */
  expectEnd(call: Call, ms: number, complaint: string, times = 3): void {
    call.life.world.startTimer(ms, () => {
      if (call.ended) return;
      if (times > 1) this.expectEnd(call, ms, complaint, times - 1);
      else this.judge.complain(complaint, call.file);
    });
  }

  /** Two operations must never share a key downstream, nor one operation have two. */
  claimDownstreamKey(file: CaseFile, key: string): void {
    const owner = this.#downstreamKeys.get(key);
    if (owner !== undefined && owner !== file) {
      this.judge.complain('two operations share a downstream key', file);
    }
    const other = [...this.#downstreamKeys].find(([k, f]) => f === file && k !== key);
    if (other !== undefined) this.judge.complain('an operation changed its downstream key', file);
    this.#downstreamKeys.set(key, file);
  }

  /** A caller arrives at a process that is up; `done` gets the outcome, unless the process died. */
  arrive(arrival: Arrival, done: (call: Call) => void = ignore): void {
    const running = this.running(arrival.process);
    if (running === null) return;
    const { life } = running;
    const call: Call = {
      number: this.calls.length + 1,
      arrival,
      file: this.judge.files[arrival.operation]!,
      life,
      startedAt: this.scheduler.now,
      retentionAtStart: life.retention,
      wasCalm: () => this.network.disturbedAt + LONGEST_FAULT_MS < call.startedAt,
      aborted: false,
      begun: false,
      ended: false,
      endedAt: Infinity,
      result: null,
    };
    this.calls.push(call);
    call.file.calls.push(call);
    const { scope, key } = call.file.operation.id;
    const { number } = call;
    this.tell(`call ${number} (${arrival.fingerprint}) of ${scope}/${key} reaches ${life.token}`);
    life.deliver(() => void this.#serve(call, running, done));
  }

  async #serve(call: Call, running: Running, done: (call: Call) => void): Promise<void> {
    const { engine, life, store } = running;
    if (call.arrival.via === 'reserve') await callReserve(this, call);
    else if (call.arrival.via === 'execute') call.result = await callExecute(this, call, engine);
    else if (call.arrival.via === 'once') call.result = await callOnce(this, call, engine);
    else call.result = await callTransaction(this, call, engine, store);
    if (call.arrival.via !== 'reserve' && !life.alive) return;
    call.ended = true;
    call.endedAt = this.scheduler.now;
    this.tell(`call ${call.number} ends: ${describe(call)}`);
    done(call);
  }

  #start(process: number, clockOffMs = 0): void {
    const planned = this.plan.processes[process]!;
    const number = (this.#lives[process] ?? 0) + 1;
    this.#lives[process] = number;
    const dice = new Dice(this.plan.seed, 3, process, number);
    const life = new Life({
      process,
      number,
      scheduler: this.scheduler,
      skewMs: planned.skewMs + clockOffMs,
      hasStoreClock: this.plan.store.hasClock,
      random: () => dice.unit(),
      diesAt: (name) => this.#diesAt(life, name),
    });
    if (this.plan.store.embedded) life.firstRevision = this.table.nextRevision;
    const store = new StoreLink({
      life,
      plan: this.plan.store,
      table: this.table,
      locks: this.#locks,
      network: this.network,
      file: this.#file,
    });
    const { sweepEveryMs, near } = planned;
    const engine = new Engine({
      store,
      near,
      world: life.world,
      platform: simulatedPlatform,
      sweep: sweepEveryMs === null ? false : { everyMs: sweepEveryMs, batch: 10 },
      audit: async (line) => this.judge.seeAudit(life, line),
    });
    this.#running[process] = { life, engine, store };
  }

  #crash(process: number, downMs: number, clockOffMs = 0): void {
    const running = this.running(process);
    if (running === null) return;
    this.tell(`${running.life.token} dies`);
    this.network.disturb(this.scheduler.now + downMs);
    this.#running[process] = null;
    running.life.crash();
    this.network.bury(running.life);
    this.scheduler.after(downMs, () => this.#start(process, clockOffMs));
  }

  /** An orderly end: the engine closes, and when it says that it has, or time is up, the process ends. */
  #shutDown(process: number, graceMs: number, downMs: number): void {
    const running = this.running(process);
    if (running === null) return;
    const { life, engine } = running;
    this.tell(`${life.token} closes`);
    const end = () => {
      if (life.alive) this.#crash(process, downMs);
    };
    life.deliver(() => void engine.close(graceMs).then(end));
    this.scheduler.after(graceMs + 500, end);
  }

  #diesAt(life: Life, name: string): boolean {
    if (this.scheduler.now >= this.plan.healAt) return false;
    const pass = (this.#passed[life.process] ?? 0) + 1;
    this.#passed[life.process] = pass;
    const planned = this.plan.events.find(
      (event) =>
        event.kind === 'crash_point' && event.process === life.process && event.pass === pass,
    );
    if (planned?.kind !== 'crash_point') return false;
    this.tell(`at ${name}:`);
    this.#crash(life.process, planned.downMs);
    return true;
  }

  #schedule(event: PlannedEvent): void {
    if (!('at' in event)) return;
    if (event.kind !== 'arrive' && event.at >= this.plan.healAt) return;
    this.scheduler.at(event.at, () => this.#carryOut(event));
  }

  #carryOut(event: Extract<PlannedEvent, { at: number }>): void {
    switch (event.kind) {
      case 'arrive':
        this.arrive(event);
        break;
      case 'crash':
        if (event.graceMs === null) this.#crash(event.process, event.downMs, event.clockOffMs);
        else this.#shutDown(event.process, event.graceMs, event.downMs);
        break;
      case 'pause':
        this.#pause(event);
        break;
      case 'clock_jump':
        this.network.disturb(this.plan.healAt);
        this.tell(`the clock of p${event.process} jumps by ${event.byMs} ms`);
        this.running(event.process)?.life.jump(event.byMs);
        break;
      case 'burst':
        this.#burst(event);
        break;
      case 'corrupt':
        this.#corrupt(event);
        break;
      case 'operator': {
        const running = this.running(event.process);
        running?.life.deliver(() => void operate(this, running.engine, event));
        break;
      }
      case 'outage':
        this.tell(`the store is out for ${event.forMs} ms`);
    }
  }

  #burst(event: Extract<PlannedEvent, { kind: 'burst' }>): void {
    const life = this.running(event.process)?.life;
    if (life === undefined) return;
    this.tell(`${life.token} makes ${event.transactions} transactions in a row`);
    this.network.disturb(this.plan.healAt);
    this.#file.burst(life, event);
  }

  #pause(event: Extract<PlannedEvent, { kind: 'pause' }>): void {
    const life = this.running(event.process)?.life;
    if (life === undefined || life.paused) return;
    const endsAt = Math.min(this.scheduler.now + event.forMs, this.plan.healAt);
    this.tell(`${life.token} stands still for ${event.forMs} ms`);
    this.network.disturb(endsAt);
    life.pause();
    this.scheduler.at(endsAt, () => life.resume(event.steadyStops));
  }

  #corrupt(event: Extract<PlannedEvent, { kind: 'corrupt' }>): void {
    const file = this.judge.files[event.operation]!;
    const spoilt = this.table.corrupt(file.operation.id, (bytes) => {
      const at = mixed(this.plan.seed, 4) % (bytes.length * 8);
      if (event.how === 'cut') return bytes.slice(0, at >> 3);
      if (event.how === 'newer_schema') bytes[0] = 200;
      else bytes[at >> 3]! ^= 1 << (at & 7);
      return bytes;
    });
    if (!spoilt) return;
    file.doubted = true;
    this.tell(`the record of ${file.operation.id.scope}/${file.operation.id.key} is spoilt`);
  }

  #heal(): void {
    this.tell('the world heals');
    this.network.disturb();
    this.plan.processes.forEach(({ skewMs }, process) => {
      this.running(process)?.life.setClock(skewMs);
    });
  }
}

function describe({ result }: Call): string {
  if (result === null) return 'done';
  if (result === 'threw') return 'threw';
  if (result.kind === 'refused') return `refused, ${result.reason}`;
  if (result.kind === 'replayed') return `replayed, ${result.state}`;
  const { settlement, fence, recorded } = result;
  return `executed, ${settlement.as}, fence ${fence}${recorded ? '' : ', not recorded'}`;
}

function ignore(): void {}
