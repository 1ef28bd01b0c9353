import { leaseLock, noLock, type PauseReason, type WaitingOperation } from 'onceward/client';
import { SimulatedDevice, type Tab } from '../outbox/simulated-device.ts';
import { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import { Judge, type Violation } from './judge.ts';
import { LedgerUser } from './ledger-user.ts';
import { Network } from './network.ts';
import { type EndToEndPlan, type PlannedEvent, type ProcessName, STORM_MS } from './plan.ts';
import { Servers } from './servers.ts';
import { Tokens } from './tokens.ts';
import { User } from './user.ts';
import { WitnessedStorage } from './witnessed-storage.ts';

export interface TraceLine {
  readonly at: number;
  readonly text: string;
}

/** Far more than any world needs: one that goes on for so long has something in it that never ends. */
const MOST_EVENTS = 60_000;
const LOOK_MS = 7_000;
const CONCLUDE_MS = 20_000;
/** How often doubts are asked about again at the end. */
const ROUNDS = 12;
/** A pause that was stored a moment ago may come too late for what was just being begun. */
const PAUSE_TAKES_MS = 100;
/** Worlds last far shorter than the patience of an outbox. */
const BUSY = /HTTP (429|503)/;
/** A redirect is kept as any answer is, and says nothing about what was done before it. */
const KEPT_REDIRECT = /redirected/;

/**
 * A device, its user, a gateway or two before an API, the server for jobs and the ledger, and everything that goes
 * wrong between them. The parts of the product are the real ones; time, network, stores and API are simulated.
 */
export class EndToEndWorld {
  readonly plan: EndToEndPlan;
  readonly trace: TraceLine[] = [];
  readonly judge: Judge;
  readonly #time = new VirtualTime();
  readonly #tokens: Tokens;
  readonly #servers: Servers;
  readonly #network: Network;
  readonly #stored: WitnessedStorage;
  readonly #device: SimulatedDevice;
  readonly #user: User;
  readonly #ledgerUser: LedgerUser | null;
  readonly #isTraced: boolean;
  #events = 0;
  #roundsLeft = ROUNDS;
  /** Since when nothing may be begun; `null`: the user has gone on, or got no confirmation that it is stored. */
  #pausedAt: number | null = null;
  #resumedAt = 0;
  #hasHealed = false;
  #isAway = false;
  #isOver = false;

  constructor(plan: EndToEndPlan, { traced }: { readonly traced: boolean }) {
    const { seed, rates } = plan;
    const time = this.#time;
    const diceFor = (part: number) => new Dice(seed * 4_096 + 1_024 + part);
    this.plan = plan;
    this.#isTraced = traced;
    const tell = (text: string) => this.#tell(text);
    const judge = new Judge(tell, plan.locks !== 'none');
    this.judge = judge;
    this.#tokens = new Tokens(time, diceFor(1), plan.intentions[0]?.user ?? '', {
      refreshFails: rates.refreshFails,
      hang: rates.credentialsHang,
      slowestMs: plan.slowestCredentialsMs,
    });
    this.#servers = new Servers({ plan, time, tokens: this.#tokens, judge, tell });
    const hosts = { 'api.test': this.#servers.gateway, 'serve.test': this.#servers.server };
    this.#network = new Network(time, diceFor(2), hosts, { ...rates });
    this.#stored = this.#watchStorage();
    this.#device = this.#openDevice(diceFor(3));
    const around = {
      plan,
      device: this.#device,
      stored: this.#stored,
      time,
      tokens: this.#tokens,
      judge,
    };
    this.#user = new User({ ...around, dice: diceFor(4) });
    this.#ledgerUser = this.#openLedgerUser(diceFor(5));
    this.#begin();
  }

  get violation(): Violation | null {
    return this.judge.violations[0] ?? null;
  }

  /** Lets the next thing happen. `false`: the world has come to its end. */
  step(): boolean {
    if (this.#isOver || this.violation !== null) return this.#end();
    this.#events += 1;
    if (this.#events > MOST_EVENTS || !this.#time.step()) {
      this.judge.violate('everything ends', this.#whatIsLeft());
      return this.#end();
    }
    return true;
  }

  #end(): false {
    this.#device.end();
    this.#servers.killAll();
    return false;
  }

  #openDevice(dice: Dice): SimulatedDevice {
    const { windowMs: replayWindowMs, rates, locks } = this.plan;
    return new SimulatedDevice(
      this.#time,
      dice,
      {
        fetch: (isAlive) => this.#network.fetchOf(isAlive),
        storage: this.#stored.storage,
        options: (storage, world) => ({
          ...(locks === 'lease' && { lock: leaseLock(storage, { world }) }),
          ...(locks === 'none' && { lock: noLock }),
          auth: this.#tokens.authFor(() =>
            this.judge.violate('credentials are refreshed one at a time', 'twice in one tab'),
          ),
          owner: () => this.#tokens.user,
          replayWindowMs,
        }),
      },
      { writeFails: rates.storageFails, noticeLost: rates.noticeLost },
    );
  }

  #openLedgerUser(dice: Dice): LedgerUser | null {
    if (!this.plan.intentions.some(({ kind }) => kind === 'write')) return null;
    return new LedgerUser({
      plan: this.plan,
      network: this.#network,
      time: this.#time,
      dice,
      clock: this.#servers.clockOf('writer'),
      disk: this.#servers.ledgerDisk,
      judge: this.judge,
      tell: (text) => this.#tell(text),
    });
  }

  #watchStorage(): WitnessedStorage {
    const { judge } = this;
    return new WitnessedStorage({
      waits: (before, now) => {
        judge.waits(before, now);
        if (now.begun > (before?.state === 'waiting' ? before.begun : 0)) this.#checkPause(now.id);
        this.#user.noteSending(now);
      },
      isDone: (operation) => {
        this.#tell(`${operation.id} is done`);
        // A job that was taken in is run later.
        judge.isDoneWith(operation, (key) => !key.startsWith('device:'));
      },
      hasFailed: (operation) => {
        this.#tell(`${operation.id} is ${operation.outcome}: ${operation.reason}`);
        judge.hasFailed(operation);
        if (operation.code === 'GAVE_UP' && BUSY.test(operation.reason)) {
          judge.violate('a server that is busy is waited for', operation.id);
        }
      },
      isGone: (operation) => {
        this.#tell(`${operation.id} is cancelled`);
        judge.isGone(operation);
      },
    });
  }

  #begin(): void {
    const { events, away, tabs } = this.plan;
    this.#servers.start();
    this.#startWriter();
    for (let tab = 0; tab < tabs; tab += 1) this.#device.openTab();
    for (const event of events) this.#time.after(event.at, () => this.#strike(event));
    if (away !== null) this.#time.after(away.at, () => this.#putAway(away.ms));
    const back = away === null ? 0 : away.at + away.ms + 1_000;
    this.#time.after(Math.max(STORM_MS, back), () => this.#heal());
    const look = () => {
      this.#user.lookAtFailed();
      this.#answerSignIn();
      if (!this.#hasHealed) this.#time.after(LOOK_MS, look);
    };
    this.#time.after(LOOK_MS, look);
  }

  #strike(event: PlannedEvent): void {
    const { at: _at, ...told } = event;
    this.#tell(`-- ${Object.values(told).join(' ')}`);
    switch (event.kind) {
      case 'kill':
        this.#kill(event.who, event.ms);
        break;
      case 'open tab':
        if (!this.#isAway && this.#device.tabs.length < 2) this.#device.openTab();
        break;
      case 'offline':
        this.#device.setOnline(false);
        this.#time.after(event.ms, () => this.#device.setOnline(true));
        break;
      case 'store down':
        this.#servers.setStores({ down: true });
        this.#time.after(event.ms, () => this.#servers.setStores({ down: false }));
        break;
      case 'upstream down':
        this.#servers.upstream.faults.down = true;
        this.#time.after(event.ms, () => {
          this.#servers.upstream.faults.down = false;
        });
        break;
      case 'clock':
        if (event.who === 'tab') this.#device.clock.offsetMs = event.ms;
        else this.#servers.clockOf(event.who).offsetMs = event.ms;
        break;
      case 'pause':
        void this.#pause(event.ms);
        break;
      case 'token expires':
        this.#tokens.expire();
        break;
      case 'sign in':
        this.#signIn(event.user);
        break;
      case 'verdicts':
        void this.#servers.resolveDoubts();
        break;
      case 'ledger loses':
        if (this.#servers.loseOfLedger(event.what)) {
          this.#time.after(100, () => this.#servers.restart('server'));
        }
    }
  }

  #kill(who: ProcessName, ms: number): void {
    if (who === 'tab') {
      this.#device.tabs[0]?.kill();
      this.#time.after(ms, () => this.#ensureTab());
      return;
    }
    if (!this.#servers.kill(who)) return;
    this.#time.after(ms, () => {
      if (who === 'writer') this.#startWriter();
      else this.#servers.restart(who);
    });
  }

  #putAway(ms: number): void {
    this.#tell(`-- the device is put away for ${ms}`);
    this.#isAway = true;
    for (const tab of this.#device.tabs) tab.kill();
    this.#servers.kill('writer');
    this.#time.after(ms, () => {
      this.#isAway = false;
      this.#ensureTab();
      this.#startWriter();
    });
  }

  #startWriter(): void {
    if (this.#isAway || this.#ledgerUser?.isOpen !== false) return;
    void this.#ledgerUser.start(this.#servers.give('writer'));
  }

  #ensureTab(): void {
    if (!this.#isAway && this.#device.tabs.length === 0) this.#device.openTab();
  }

  /** The user stops everything for a while, as on a metered network. */
  async #pause(ms: number): Promise<void> {
    const tab = this.#device.tabs[0];
    if (tab === undefined) return;
    this.#time.after(ms, () => this.#resume());
    try {
      await tab.outbox.pause();
    } catch {
      return;
    }
    // One that was being resumed just then may be either.
    const isSure = this.#time.now - this.#resumedAt > PAUSE_TAKES_MS;
    if (isSure && tab.isAlive()) this.#pausedAt = this.#time.now;
  }

  #resume(): void {
    this.#pausedAt = null;
    this.#resumedAt = this.#time.now;
    for (const { outbox } of this.#device.tabs) outbox.resume().catch(() => {});
  }

  #checkPause(id: string): void {
    if (this.#pausedAt === null || this.#time.now - this.#pausedAt <= PAUSE_TAKES_MS) return;
    this.judge.violate('nothing is begun while the user has paused', id);
  }

  /** The user answers the sign-in page, if one is shown. */
  #answerSignIn(): void {
    const isPaused =
      (reason: PauseReason) =>
      ({ outbox }: Tab) =>
        outbox.status.getSnapshot().paused === reason;
    if (this.#device.tabs.some(isPaused('auth'))) this.#signIn(this.#tokens.user);
    // The process that was to go on may have been killed.
    else if (this.#hasHealed && this.#device.tabs.some(isPaused('user'))) this.#resume();
  }

  #signIn(user: string): void {
    this.#tokens.signIn(user);
    this.#resume();
  }

  #heal(): void {
    this.#tell('-- the world heals');
    this.#hasHealed = true;
    Object.assign(this.#network.faults, {
      lostRequest: 0,
      lostAnswer: 0,
      lateRequest: 0,
      atTheDoor: 0,
    });
    Object.assign(this.#device.faults, { writeFails: 0, noticeLost: 0 });
    this.#servers.heal();
    Object.assign(this.#tokens.faults, { refreshFails: 0, hang: 0, slowestMs: 50 });
    this.#device.setOnline(true);
    this.#conclude();
  }

  /** Doubts are cleared up one after the other until nothing is left to be done. */
  #conclude(): void {
    this.#ensureTab();
    this.#answerSignIn();
    const missed = this.#user.whoIsMissed;
    if (missed !== null && missed !== this.#tokens.user) this.#signIn(missed);
    const isCalm = this.#user.hasQueuedAll && this.#waiting.length === 0;
    const { doubtful } = this.#user;
    const isDoubted = doubtful.length > 0 && this.#roundsLeft > 0;
    if (isCalm && !isDoubted && this.#hasServed) {
      this.#checkEnds();
      this.#isOver = true;
      return;
    }
    void this.#servers.resolveDoubts();
    if (isCalm && isDoubted) {
      this.#roundsLeft -= 1;
      for (const operation of doubtful) this.#user.retry(operation);
    }
    this.#time.after(CONCLUDE_MS, () => this.#conclude());
  }

  get #waiting(): WaitingOperation[] {
    return [...this.#stored.operations.values()].filter((stored) => stored.state === 'waiting');
  }

  /** Every job that was taken in has been run, every write of the ledger has been answered. */
  get #hasServed(): boolean {
    const isRun = this.#user.wanted.every(({ intention: { kind, name }, id }) => {
      const end = this.#stored.operations.get(id ?? '');
      return kind !== 'job' || end?.state !== 'done' || this.judge.isDone(name, 0);
    });
    const user = this.#ledgerUser;
    return isRun && (user === null || (user.isIdle && this.#servers.ledger !== null));
  }

  #checkEnds(): void {
    for (const { intention, id, isCancelled } of this.#user.wanted) {
      if (isCancelled || this.#stored.operations.has(id ?? '')) continue;
      this.judge.violate('nothing that was queued is lost', `${intention.name} as ${id}`);
    }
    for (const { id, reason } of this.#user.doubtful) {
      if (KEPT_REDIRECT.test(reason)) continue;
      this.judge.violate('what the server knows is known in the end', `${id}: ${reason}`);
    }
    const { ledger, ledgerDisk } = this.#servers;
    const { organization } = ledgerDisk;
    this.#ledgerUser?.check((key) => ledger?.reads.entity({ organization }, key)?.version ?? 0);
  }

  #whatIsLeft(): string {
    const waiting = this.#waiting.map(
      ({ id, direction, problem }) => `${id} ${direction} ${problem}`,
    );
    return `after ${this.#events} events: ${waiting.join(', ') || 'nothing waits'}`;
  }

  #tell(text: string): void {
    if (this.#isTraced) this.trace.push({ at: this.#time.now, text });
  }
}
