import { Dice, type VirtualTime } from '../outbox/virtual-time.ts';
import { GatewayProcess } from './gateway.ts';
import { Charges, JobServer } from './job-server.ts';
import type { Judge } from './judge.ts';
import { LedgerDisk, LedgerServer } from './ledger-server.ts';
import { type Clock, Life } from './life.ts';
import type { Host } from './network.ts';
import type { EndToEndPlan, ProcessName } from './plan.ts';
import { SharedStore, type StoreFaults } from './shared-store.ts';
import type { Tokens } from './tokens.ts';
import { SimulatedUpstream } from './upstream.ts';

const DAY = 86_400_000;

export interface ServerSurroundings {
  readonly plan: EndToEndPlan;
  readonly time: VirtualTime;
  readonly tokens: Tokens;
  readonly judge: Judge;
  readonly tell: (text: string) => void;
}

/** Everything behind the network: gateways before an API, and the server for jobs and the ledger. */
export class Servers {
  readonly upstream: SimulatedUpstream;
  readonly ledgerDisk = new LedgerDisk();
  readonly #around: ServerSurroundings;
  readonly #charges: Charges;
  readonly #gatewayStore: SharedStore;
  readonly #jobStore: SharedStore;
  readonly #clocks = new Map<ProcessName, Clock>();
  readonly #lives = new Map<ProcessName, Life>();
  readonly #gateways: (GatewayProcess | null)[];
  #jobs: JobServer | null = null;
  #ledger: LedgerServer | null = null;
  #born = 0;
  #arrivals = 0;

  constructor(around: ServerSurroundings) {
    const { plan, time, tokens, judge } = around;
    const { rates, slowestEffectMs } = plan;
    this.#around = around;
    this.upstream = new SimulatedUpstream(time, this.#dice(3), tokens, judge, {
      ...rates,
      down: false,
      slowestEffectMs,
    });
    this.#charges = new Charges(judge, time);
    this.#charges.failing = rates.turnedAway;
    const faults = {
      requestLost: rates.storeRequestLost,
      replyLost: rates.storeReplyLost,
      down: false,
    };
    this.#gatewayStore = new SharedStore(time, this.#dice(1), { ...faults });
    this.#jobStore = new SharedStore(time, this.#dice(7), { ...faults });
    this.#gateways = Array.from({ length: plan.gateways }, () => null);
  }

  get ledger(): LedgerServer['ledger'] {
    return this.#ledger?.ledger ?? null;
  }

  start(): void {
    this.#gateways.forEach((_, index) => {
      this.restart(`gateway ${index}` as ProcessName);
    });
    this.restart('server');
  }

  restart(who: ProcessName): void {
    if (this.#lives.get(who)?.alive === true) return;
    if (who === 'server') this.#startServer();
    else if (who.startsWith('gateway')) this.#startGateway(Number(who.slice(-1)));
  }

  /** A life of a process, of this side or of another. */
  give(who: ProcessName): Life {
    this.#born += 1;
    const life = new Life(this.#around.time, this.#dice(64 + this.#born), this.clockOf(who));
    this.#lives.set(who, life);
    return life;
  }

  /** `false`: it was not alive. */
  kill(who: ProcessName): boolean {
    const life = this.#lives.get(who);
    if (life?.alive !== true) return false;
    life.kill();
    return true;
  }

  killAll(): void {
    for (const life of this.#lives.values()) life.kill();
  }

  clockOf(who: ProcessName): Clock {
    const clock = this.#clocks.get(who) ?? { offsetMs: 0 };
    this.#clocks.set(who, clock);
    return clock;
  }

  setStores(faults: Partial<StoreFaults>): void {
    Object.assign(this.#gatewayStore.faults, faults);
    Object.assign(this.#jobStore.faults, faults);
  }

  /** What a process that dies leaves behind is damaged, and the next one finds it so. */
  loseOfLedger(what: 'state' | 'history'): boolean {
    if (this.#ledger === null || !this.kill('server')) return false;
    this.ledgerDisk.home.lose(what);
    return true;
  }

  heal(): void {
    const { faults } = this.upstream;
    // Sooner than any gateway loses its patience.
    const slowestEffectMs = Math.min(faults.slowestEffectMs, 500);
    for (const name of Object.keys(faults)) Object.assign(faults, { [name]: 0 });
    Object.assign(faults, { slowestEffectMs, down: false });
    this.setStores({ requestLost: 0, replyLost: 0, down: false });
    this.#charges.failing = 0;
  }

  /** Requests go to the gateways in turn, as a load balancer sends them. */
  readonly gateway: Host = () => {
    const alive = this.#gateways.filter((gateway) => gateway !== null);
    if (alive.length === 0) return null;
    this.#arrivals += 1;
    const chosen = alive[this.#arrivals % alive.length]!;
    return (request, caller, reply) => chosen.receive(request, caller, reply);
  };

  /** Jobs and ledger are one server. Before its ledger is open it breaks connections off. */
  readonly server: Host = () => {
    if (this.#lives.get('server')?.alive !== true) return null;
    return (request, caller, reply) => {
      const served = request.target === '/jobs' ? this.#jobs : this.#ledger;
      if (served === null) reply(null);
      else served.receive(request, caller, reply);
    };
  };

  /** An operator checks the API for each doubt whose request can no longer act, and resolves it. */
  async resolveDoubts(): Promise<void> {
    const { judge, tell } = this.#around;
    const engine = this.#gateways.find((gateway) => gateway !== null)?.engine;
    if (engine === undefined) return;
    for (const { id } of this.#gatewayStore.inState('in_doubt')) {
      if (this.upstream.isBusyWith(id.key)) continue;
      const as = judge.happenedUnder(id.key) ? 'committed' : 'void';
      tell(`the operator says that ${id.key} is ${as}`);
      const verdict = { as, by: 'operator', reason: 'looked', keepMs: DAY } as const;
      await engine.resolve(id, verdict).catch(() => {});
    }
  }

  #dice(part: number): Dice {
    return new Dice(this.#around.plan.seed * 4_096 + part);
  }

  #startGateway(index: number): void {
    const { plan, tokens, judge } = this.#around;
    const life = this.give(`gateway ${index}` as ProcessName);
    this.#gateways[index] = new GatewayProcess(life, {
      plan,
      store: this.#gatewayStore,
      upstream: this.upstream,
      tokens,
      onFault: (error) => judge.violate('a gateway answers', String(error)),
    });
    life.whenOver(() => {
      this.#gateways[index] = null;
    });
  }

  #startServer(): void {
    const { plan, time, judge } = this.#around;
    const life = this.give('server');
    const dice = this.#dice(2_048 + this.#born);
    const wants = (kind: string) => plan.intentions.some((intention) => intention.kind === kind);
    if (wants('job')) {
      const charges = this.#charges;
      this.#jobs = new JobServer(life, { plan, store: this.#jobStore, time, dice, charges });
    }
    life.whenOver(() => {
      this.#jobs = null;
      this.#ledger = null;
    });
    if (!wants('write')) return;
    LedgerServer.open(life, this.ledgerDisk, plan, time, dice).then(
      (server) => {
        if (life.alive) this.#ledger = server;
      },
      (error: unknown) => judge.violate('a ledger opens', String(error)),
    );
  }
}
