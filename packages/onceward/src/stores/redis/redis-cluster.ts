import { StoreError } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import { CallDeadlines, late } from '../call-deadlines.ts';
import type { Address, Command, OpenConnection, Reply } from './redis-driver.ts';
import { RedisLink } from './redis-link.ts';
import type { RedisServers } from './redis-servers.ts';
import { SLOTS, slotOf } from './wire/hash-slot.ts';

/** How often one call is redirected to another node before it fails. */
const MAX_REDIRECTIONS = 5;
/** Between two refreshes of the slot map, while nodes are out of reach. */
const REFRESH_PAUSE_MS: DurationMs = 200;
const REDIRECTION = /Redis refused: (MOVED|ASK) (\d+) (\S*):(\d+)/;

/**
 * The nodes of a cluster, each behind a link of its own. Commands go to the node that holds the slot of their key; a
 * node that does not hold it any more says so without having done anything, and the command goes where it points.
 */
export class RedisCluster implements RedisServers {
  readonly clustered = true;
  readonly #openTo: (address: Address) => OpenConnection;
  readonly #timeoutMs: DurationMs;
  readonly #deadlines: CallDeadlines;
  readonly #links = new Map<string, Promise<RedisLink>>();
  /** The name of the node that holds each slot. */
  readonly #holders: string[] = new Array<string>(SLOTS).fill('');
  #refreshing: Promise<void> | null = null;
  #refreshedAt = 0;
  #closed = false;

  private constructor(openTo: (address: Address) => OpenConnection, timeoutMs: DurationMs) {
    this.#openTo = openTo;
    this.#timeoutMs = timeoutMs;
    this.#deadlines = new CallDeadlines(timeoutMs);
  }

  static async connect(
    openTo: (address: Address) => OpenConnection,
    seeds: readonly Address[],
    timeoutMs: DurationMs,
  ): Promise<RedisCluster> {
    const cluster = new RedisCluster(openTo, timeoutMs);
    try {
      await cluster.#refresh(seeds.map(nameOf));
    } catch (error) {
      cluster.close();
      throw error;
    }
    return cluster;
  }

  run(key: string, command: Command): Promise<Reply> {
    return this.#deadlines.bound(this.#follow(key, command), (error) => error);
  }

  /** Nothing is sent when the time of the call is over. */
  async #follow(key: string, command: Command): Promise<Reply> {
    const slot = slotOf(key);
    const giveUpAt = performance.now() + this.#timeoutMs;
    let name = this.#holders[slot] as string;
    let asking = false;
    for (let hops = 0; ; hops += 1) {
      try {
        const link = await this.#linkTo(name);
        if (performance.now() > giveUpAt) throw late(this.#timeoutMs, 'no');
        // Sent together, so that nothing of another call comes between the two. Where it is refused, the command itself
        // still may not be: only its own reply has the outcome.
        if (asking) link.call('ASKING').catch(() => {});
        return await link.send(command);
      } catch (error) {
        const redirection = REDIRECTION.exec((error as Error).message);
        if (redirection === null) {
          this.#refreshLater();
          throw error;
        }
        if (hops === MAX_REDIRECTIONS || performance.now() > giveUpAt) throw error;
        const host = redirection[3] === '' ? addressOf(name).host : (redirection[3] as string);
        name = nameOf({ host, port: Number(redirection[4]) });
        asking = redirection[1] === 'ASK';
        if (!asking) this.#holders[slot] = name;
      }
    }
  }

  async masters(): Promise<readonly RedisLink[]> {
    return Promise.all(this.#names().map((name) => this.#linkTo(name)));
  }

  /** Any node that is known, another one each time: messages of pub/sub reach all of them. */
  readonly openAny: OpenConnection = (events) => {
    const names = this.#names();
    const name = names[Math.floor(Math.random() * names.length)] as string;
    return this.#openTo(addressOf(name))(events);
  };

  close(): void {
    this.#closed = true;
    for (const opening of this.#links.values()) {
      opening.then(
        (link) => link.close(),
        () => {},
      );
    }
    this.#links.clear();
  }

  #names(): string[] {
    return [...new Set(this.#holders)].filter((name) => name !== '');
  }

  #linkTo(name: string): Promise<RedisLink> {
    if (this.#closed) return Promise.reject(unavailable('the store is closed'));
    if (name === '') return Promise.reject(unavailable('no node of the cluster holds the slot'));
    let opening = this.#links.get(name);
    if (opening === undefined) {
      opening = RedisLink.connect(this.#openTo(addressOf(name)), this.#timeoutMs);
      this.#links.set(name, opening);
      // The next call tries again.
      opening.catch(() => this.#links.delete(name));
    }
    return opening;
  }

  #refreshLater(): void {
    if (this.#closed || performance.now() - this.#refreshedAt < REFRESH_PAUSE_MS) return;
    this.#refreshing ??= this.#refresh([...this.#names(), ...this.#links.keys()])
      .catch(() => {})
      .finally(() => {
        this.#refreshing = null;
      });
  }

  /** Asks one node after the other who holds what, until one answers. */
  async #refresh(names: readonly string[]): Promise<void> {
    this.#refreshedAt = performance.now();
    let failure: unknown = unavailable('no node of the cluster is known');
    for (const name of new Set(names)) {
      try {
        const link = await this.#linkTo(name);
        const ranges = (await link.call('CLUSTER', 'SLOTS')) as Reply[][];
        if (ranges.length === 0) throw unavailable('the cluster has given out no slots');
        for (const [first, last, master] of ranges) {
          const [host, port] = master as Reply[];
          const at = String(host ?? '') || addressOf(name).host;
          this.#holders.fill(
            nameOf({ host: at, port: Number(port) }),
            Number(first),
            Number(last) + 1,
          );
        }
        return;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }
}

function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}

function addressOf(name: string): Address {
  const colon = name.lastIndexOf(':');
  return { host: name.slice(0, colon), port: Number(name.slice(colon + 1)) };
}

function unavailable(message: string): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { applied: 'no' });
}
