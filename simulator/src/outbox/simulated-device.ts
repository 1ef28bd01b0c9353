import {
  type Bulletin,
  groups,
  memoryStorage,
  type Notice,
  Outbox,
  type OutboxOptions,
  type OutboxStorage,
  type RunnerLock,
} from 'onceward/client';
import { type Dice, lifeWorld, type VirtualTime } from './virtual-time.ts';

/** As long as the simulated server remembers, and longer than any run. */
const DAY = 24 * 3_600_000;

export interface DeviceFaults {
  /** Probabilities per write to the storage. */
  writeFails: number;
  noticeLost: number;
}

/** What is around a device, and the settings of its outboxes beside what the device knows itself. */
export interface Surroundings {
  /** The way to the servers, for one life. */
  readonly fetch: (isAlive: () => boolean) => typeof fetch;
  readonly storage?: OutboxStorage;
  readonly options?: (
    storage: OutboxStorage,
    world: ReturnType<typeof lifeWorld>,
  ) => Partial<OutboxOptions>;
}

/** One tab, from opening to close or kill. */
export interface Tab {
  readonly outbox: Outbox;
  readonly isAlive: () => boolean;
  kill(): void;
}

/** A phone or a browser: storage and locks outlive the tabs that use them. */
export class SimulatedDevice {
  readonly faults: DeviceFaults;
  readonly clock = { offsetMs: 0 };
  online = true;
  readonly #storage: OutboxStorage;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  readonly #around: Surroundings;
  readonly #tabs = new Set<Tab>();
  readonly #opened: Outbox[] = [];
  readonly #hearers = new Map<object, (notice: Notice) => void>();
  readonly #onlineListeners = new Set<() => void>();
  #lockHolder: object | null = null;
  #lockQueue: { life: object; grant: () => void }[] = [];

  constructor(time: VirtualTime, dice: Dice, around: Surroundings, faults: DeviceFaults) {
    this.#time = time;
    this.#dice = dice;
    this.#around = around;
    this.#storage = around.storage ?? memoryStorage();
    this.faults = faults;
  }

  get tabs(): readonly Tab[] {
    return [...this.#tabs];
  }

  openTab(): Tab {
    const life = { alive: true };
    const isAlive = () => life.alive;
    const storage = this.#storageOf(isAlive);
    const world = lifeWorld(this.#time, this.#dice, this.clock, isAlive);
    const outbox = new Outbox({
      storage,
      groups,
      replayWindowMs: DAY,
      fetch: this.#around.fetch(isAlive),
      world,
      lock: this.#lockOf(life),
      bulletin: this.#bulletinOf(life, isAlive),
      connectivity: {
        online: () => this.online,
        listen: (listener) => {
          const guarded = () => isAlive() && listener();
          this.#onlineListeners.add(guarded);
          return () => this.#onlineListeners.delete(guarded);
        },
      },
      ...this.#around.options?.(storage, world),
    });
    this.#opened.push(outbox);
    const tab: Tab = {
      outbox,
      isAlive,
      kill: () => {
        life.alive = false;
        this.#tabs.delete(tab);
        this.#hearers.delete(life);
        this.#release(life);
      },
    };
    this.#tabs.add(tab);
    return tab;
  }

  /** After the end: a signal that is never aborted, and has listeners, would keep its whole world in memory. */
  end(): void {
    for (const tab of this.tabs) tab.kill();
    for (const outbox of this.#opened) void outbox.close();
  }

  setOnline(online: boolean): void {
    this.online = online;
    for (const listener of this.#onlineListeners) listener();
  }

  /** Storage as one life sees it: slow, failing, and silent once the life is over. */
  #storageOf(isAlive: () => boolean): OutboxStorage {
    const call = async <T>(work: () => Promise<T>): Promise<T> => {
      await this.#time.sleep(this.#dice.between(0, 2));
      if (!isAlive()) return new Promise(() => {});
      const result = await work();
      await this.#time.sleep(this.#dice.between(0, 2));
      return isAlive() ? result : new Promise(() => {});
    };
    return {
      read: (keys) => call(() => this.#storage.read(keys)),
      range: (query) => call(() => this.#storage.range(query)),
      count: (prefix) => call(() => this.#storage.count(prefix)),
      swap: (changes) =>
        call(async () => {
          const fails = this.#dice.chance(this.faults.writeFails);
          if (fails && this.#dice.chance(0.5)) throw new Error('the write failed');
          const won = await this.#storage.swap(changes);
          if (fails) throw new Error('the write was made, and its answer lost');
          return won;
        }),
      close: async () => {},
    };
  }

  #lockOf(life: object): RunnerLock {
    return {
      hold: async (work, { signal }) => {
        await new Promise<void>((grant) => {
          this.#lockQueue.push({ life, grant });
          this.#grantNext();
        });
        if (!signal.aborted) await work(signal);
        this.#release(life);
        return true;
      },
    };
  }

  #release(life: object): void {
    this.#lockQueue = this.#lockQueue.filter((waiting) => waiting.life !== life);
    if (this.#lockHolder === life) this.#lockHolder = null;
    this.#grantNext();
  }

  #grantNext(): void {
    if (this.#lockHolder !== null) return;
    const next = this.#lockQueue.shift();
    if (next === undefined) return;
    this.#lockHolder = next.life;
    next.grant();
  }

  #bulletinOf(life: object, isAlive: () => boolean): Bulletin {
    return {
      post: (notice) => {
        for (const [other, hear] of this.#hearers) {
          if (other === life || this.#dice.chance(this.faults.noticeLost)) continue;
          this.#time.after(
            this.#dice.between(0, 5),
            () => this.#hearers.has(other) && hear(notice),
          );
        }
      },
      listen: (listener) => {
        if (isAlive()) this.#hearers.set(life, listener);
      },
      close: () => this.#hearers.delete(life),
    };
  }
}
