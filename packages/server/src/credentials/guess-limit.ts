/** A connection, as far as it says who is asking. */
export interface Source {
  readonly remoteAddress?: string | undefined;
}

interface Bucket {
  left: number;
  at: number;
}

interface Rate {
  readonly burst: number;
  readonly perSecond: number;
}

/** A person who mistypes, or a program with an old secret, stays far below this. */
const OF_ONE_KEY: Rate = { burst: 20, perSecond: 1 };
const OF_ONE_SOURCE: Rate = { burst: 100, perSecond: 20 };
const BUCKETS_AT_MOST = 10_000;

/**
 * How many unproven secrets may come from one address, for one key and for all keys together. Token buckets: each of
 * them takes a token, and tokens come back with time.
 */
export class GuessLimit {
  readonly #now: () => number;
  readonly #byKey = new Map<string, Bucket>();
  readonly #bySource = new Map<string, Bucket>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  isSpent(source: Source, apiKey: string): boolean {
    const network = networkOf(source.remoteAddress ?? '');
    const ofKey = this.#left(this.#byKey, `${network}\0${apiKey}`, OF_ONE_KEY);
    const ofSource = this.#left(this.#bySource, network, OF_ONE_SOURCE);
    return ofKey < 1 || ofSource < 1;
  }

  note(source: Source, apiKey: string): void {
    const network = networkOf(source.remoteAddress ?? '');
    this.#take(this.#byKey, `${network}\0${apiKey}`, OF_ONE_KEY);
    this.#take(this.#bySource, network, OF_ONE_SOURCE);
  }

  #left(buckets: Map<string, Bucket>, name: string, { burst, perSecond }: Rate): number {
    const bucket = buckets.get(name);
    if (bucket === undefined) return burst;
    return Math.min(burst, bucket.left + ((this.#now() - bucket.at) / 1_000) * perSecond);
  }

  #take(buckets: Map<string, Bucket>, name: string, rate: Rate): void {
    const left = Math.max(0, this.#left(buckets, name, rate) - 1);
    // Set again, so that the first in the map is the least recently used.
    buckets.delete(name);
    buckets.set(name, { left, at: this.#now() });
    if (buckets.size <= BUCKETS_AT_MOST) return;
    for (const oldest of buckets.keys()) {
      buckets.delete(oldest);
      return;
    }
  }
}

/** A client with one IPv6 address has 2^64 of them. */
export function networkOf(address: string): string {
  if (!address.includes(':') || address.includes('.')) return address;
  const [head = '', tail = ''] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}
