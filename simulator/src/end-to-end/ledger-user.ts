import { memoryStorage, type OutboxStorage } from 'onceward/client';
import { LedgerClient, LedgerWriter, type WriterResult } from 'onceward/client/ledger';
import { type Dice, lifeWorld, type VirtualTime } from '../outbox/virtual-time.ts';
import type { Judge } from './judge.ts';
import type { LedgerDisk } from './ledger-server.ts';
import { type Clock, type Life, never } from './life.ts';
import type { Network } from './network.ts';
import type { EndToEndPlan, PlannedIntention } from './plan.ts';

export interface LedgerUserSurroundings {
  readonly plan: EndToEndPlan;
  readonly network: Network;
  readonly time: VirtualTime;
  readonly dice: Dice;
  readonly clock: Clock;
  readonly disk: LedgerDisk;
  readonly judge: Judge;
  readonly tell: (text: string) => void;
}

/** The shop's own process: what it writes to the ledger is stored first and sent until the ledger has answered. */
export class LedgerUser {
  readonly results = new Map<string, WriterResult>();
  readonly #around: LedgerUserSurroundings;
  readonly #storage = memoryStorage();
  readonly #todo: PlannedIntention[];
  #life: Life | null = null;
  #writer: LedgerWriter | null = null;

  constructor(around: LedgerUserSurroundings) {
    this.#around = around;
    this.#todo = around.plan.intentions.filter(({ kind }) => kind === 'write');
  }

  /** Whether a process of it is there, or on its way. */
  get isOpen(): boolean {
    return this.#life?.alive === true;
  }

  get isIdle(): boolean {
    return this.#todo.length === 0 && this.#writer !== null && this.#writer.waiting === 0;
  }

  /** Opens the stream again and again until the ledger can be asked, then writes what is due. */
  async start(life: Life): Promise<void> {
    const { plan, network, time, dice, clock, disk } = this.#around;
    this.#life = life;
    const world = lifeWorld(time, dice, clock, life.isAlive);
    const client = new LedgerClient({
      url: 'https://serve.test',
      headers: () => ({ 'x-api-key': 'ak_shop', 'x-api-secret': 'sk_shop' }),
      fetch: network.fetchOf(life.isAlive),
      world,
      timeoutMs: 5_000,
    });
    life.whenOver(() => {
      this.#writer = null;
    });
    while (life.alive && this.#writer === null) {
      await life.hear(time.sleep(500));
      if (disk.organization === '') continue;
      this.#writer = await LedgerWriter.open({
        client,
        storage: this.#storageOf(life),
        stream: { organization: disk.organization, clientId: 'shop' },
        world,
        ttlMs: plan.windowMs,
        onResult: (operations, result) => this.#heard(operations, result),
      }).catch(() => null);
    }
    await this.#writeAll(life);
  }

  async #writeAll(life: Life): Promise<void> {
    const { time } = this.#around;
    while (life.alive) {
      const next = this.#todo[0];
      if (next === undefined) return;
      await life.hear(time.sleep(Math.max(0, next.at - time.now)));
      // Taken off first: after a crash it is unknown whether it was stored, and it is not wanted twice.
      this.#todo.shift();
      void this.#writer?.write([operationOf(next)]).catch(() => {});
      await life.hear(time.sleep(20));
    }
  }

  #heard(operations: readonly unknown[], result: WriterResult): void {
    const [{ setEntity }] = operations as [{ setEntity: { key: string } }];
    const { key } = setEntity;
    this.#around.tell(`${key} is ${result.ok ? 'written' : result.code}`);
    const before = this.results.get(key);
    if (before !== undefined && before.ok !== result.ok) {
      this.#around.judge.violate('a write has one end', `${key} was told ${before.ok} before`);
    }
    this.results.set(key, result);
  }

  #storageOf(life: Life): OutboxStorage {
    const { time, dice } = this.#around;
    const call = async <T>(work: () => Promise<T>): Promise<T> => {
      await time.sleep(dice.between(0, 2));
      if (!life.alive) return never();
      const result = await work();
      await time.sleep(dice.between(0, 2));
      return life.alive ? result : never();
    };
    return {
      read: (keys) => call(() => this.#storage.read(keys)),
      range: (query) => call(() => this.#storage.range(query)),
      count: (prefix) => call(() => this.#storage.count(prefix)),
      swap: (changes) => call(() => this.#storage.swap(changes)),
      close: async () => {},
    };
  }

  /** Checks what the ledger has against its answers. */
  check(entityVersion: (key: string) => number): void {
    const { plan, judge } = this.#around;
    let last = 0;
    for (const { name, kind } of plan.intentions) {
      if (kind !== 'write') continue;
      const version = entityVersion(name);
      const result = this.results.get(name);
      if (version > 1) judge.violate('one effect for each intention', `${name} has ${version}`);
      if (result === undefined || (!result.ok && result.happened === 'unknown')) continue;
      if (result.ok !== (version === 1)) {
        const told = result.ok ? 'written' : result.code;
        judge.violate('what is reported is so', `${name} is ${told} and has ${version}`);
      }
    }
    for (const { name } of this.#inOrder()) {
      const result = this.results.get(name);
      if (result?.ok !== true) continue;
      // Not the sequence: a client that was silent for too long begins at 1 again.
      if (result.blockHeight < last) judge.violate('a stream keeps its order', name);
      last = Math.max(last, result.blockHeight);
    }
  }

  #inOrder(): PlannedIntention[] {
    return this.#around.plan.intentions.filter(({ kind }) => kind === 'write');
  }
}

function operationOf({ name, refused, long }: PlannedIntention) {
  const condition = refused ? { mustExist: true } : long ? { notExists: true } : null;
  const value = new TextEncoder().encode(name);
  return { setEntity: { key: name, value, ...(condition && { condition }) } };
}
