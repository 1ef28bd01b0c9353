import { type ClientWorld, mintKey, pause, realWorld, SECOND } from '../client-world.ts';
import type { Entry, OutboxStorage } from '../storages/outbox-storage.ts';
import type { HoldOptions, RunnerLock, Work } from './runner-lock.ts';

/** Where it is in the storage, beside what `layout` names. */
const PLACE = 'runner';
/** The holder renews the lease this often, and the others read it. */
const RENEW_EVERY = 4 * SECOND;
/** One that was not renewed for so long is taken over. */
const LEASE_MS = 15 * SECOND;

interface Lease extends Entry {
  /** `null`: it was given back. */
  readonly holder: string | null;
}

export interface LeaseLockOptions {
  readonly world?: ClientWorld;
  /** Called in the tab that takes over from one that is stalled. */
  readonly onTakeover?: () => void;
}

/**
 * A lock kept in the storage of the outbox, for places that have no other: pages over plain HTTP, and apps in which a
 * tab that is stalled must not keep the others from sending. Its holder renews it; whether it is stalled is measured
 * by the watcher's steady clock alone, so no clocks are compared. A holder that wakes up after its lease was taken over
 * finds that out at its next read, and begins nothing more. Handing over after a crash takes fifteen seconds,
 * for `drain()` too; while the holder lives, it gives up at the next renewal. Every outbox on the same
 * storage, the service worker's included, must use this lock: Web Locks and a lease do not exclude each other.
 *
 * ```ts
 * const storage = indexedDbStorage();
 * const outbox = new Outbox({ storage, lock: leaseLock(storage) });
 * ```
 */
export function leaseLock(storage: OutboxStorage, options: LeaseLockOptions = {}): RunnerLock {
  const { world = realWorld, onTakeover = () => {} } = options;
  return {
    async hold(work, hold) {
      const lease = new StoredLease(storage, world);
      while (!hold.signal.aborted) {
        const taken = await lease.tryTake().catch(() => null);
        if (taken) {
          if (taken === 'from another') onTakeover();
          await holdWhile(work, lease, hold, world);
          if (hold.ifFree) return true;
        } else if (hold.ifFree && (taken === null || lease.isRenewed)) return false;
        // A caller of `ifFree` waits for this: its process has to live until then.
        await pause(world, RENEW_EVERY, hold.signal, !hold.ifFree);
      }
      return false;
    },
  };
}

/** Works until that ends, or the lease is lost. */
async function holdWhile(
  work: Work,
  lease: StoredLease,
  { signal }: HoldOptions,
  world: ClientWorld,
): Promise<void> {
  const lost = new AbortController();
  const ended = new AbortController();
  const renewing = (async () => {
    while (!ended.signal.aborted) {
      await pause(world, RENEW_EVERY, AbortSignal.any([signal, ended.signal]), true);
      if (signal.aborted || ended.signal.aborted) return;
      // A storage that fails says nothing; one that shows another holder does.
      if ((await lease.renew().catch(() => true)) === false) return lost.abort();
    }
  })();
  await work(AbortSignal.any([signal, lost.signal]));
  ended.abort();
  await renewing;
  await lease.giveBack().catch(() => {});
}

class StoredLease {
  readonly #storage: OutboxStorage;
  readonly #world: ClientWorld;
  readonly #me: string;
  #seen: Lease | undefined;
  #seenAt: number;
  /** Its holder was seen to live. */
  isRenewed = false;

  constructor(storage: OutboxStorage, world: ClientWorld) {
    this.#storage = storage;
    this.#world = world;
    this.#me = mintKey(world);
    this.#seenAt = world.elapsed();
  }

  async tryTake(): Promise<'free' | 'from another' | false> {
    await this.#refresh();
    const isFree = !this.#seen?.holder;
    const isStalled = this.#world.elapsed() - this.#seenAt > LEASE_MS;
    if (!isFree && !isStalled) return false;
    if (!(await this.#write(this.#me))) return false;
    return isFree ? 'free' : 'from another';
  }

  /** `false`: it is another's by now. */
  async renew(): Promise<boolean> {
    if (await this.#write(this.#me)) return true;
    await this.#refresh();
    return this.#seen?.holder === this.#me;
  }

  async giveBack(): Promise<void> {
    if (this.#seen?.holder === this.#me) await this.#write(null);
  }

  async #refresh(): Promise<void> {
    const [lease] = await this.#storage.read([PLACE]);
    if (lease?.version === this.#seen?.version) return;
    this.isRenewed = this.#seen !== undefined;
    this.#seen = lease as Lease | undefined;
    this.#seenAt = this.#world.elapsed();
  }

  async #write(holder: string | null): Promise<boolean> {
    const expected = this.#seen?.version ?? null;
    const next: Lease = { version: (expected ?? 0) + 1, holder };
    const won = await this.#storage.swap([{ key: PLACE, expected, next }]);
    if (won) this.#seen = next;
    return won;
  }
}
