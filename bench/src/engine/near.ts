import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { NearAnswer, NearTier } from '../../../packages/onceward/src/engine/near/near-tier.ts';
import type { OperationId } from '../../../packages/onceward/src/engine/record.ts';
import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import { nextId } from './cycles.ts';

const ENTRIES = 100_000;
const RECORD = {
  state: 'committed',
  attempt: 1,
  owner: 'o',
  settledAt: 1e12,
  keepUntil: 1e12 + 300_000,
} as const;

/** What a duplicate costs that the near tier knows: find it, see that it is still good, compare the fingerprint. */
export function benchNearTier(report: Report, { quick }: BenchOptions): void {
  const samples = quick ? 200 : 2_000;
  const ours = measureEach(samples, nearTier());
  const theirs = measureEach(samples, yardstick());
  for (const [index, name] of Object.keys(SPREADS).entries()) {
    const value = ours[index]!;
    const figure = { bench: 'engine', case: name, metric: 'ns median', value } as const;
    report({ ...figure, against: 'lru-cache', ratio: value / theirs[index]! });
  }
}

/** Retries come soon after: a duplicate mostly hits one of the latest entries, still in the CPU's caches. */
const SPREADS = {
  'near tier, duplicate of a recent one': 1_000,
  'near tier, duplicate of any one at random': ENTRIES,
};

/** What a request brings: its id, and a fingerprint as doors make them. */
interface Arrival extends OperationId {
  readonly fingerprint: string;
}

/** What is known of an arrival, and anything else when it is not a duplicate. */
type Check = (arrival: Arrival) => unknown;

interface Filled {
  readonly check: Check;
  readonly known: readonly Arrival[];
}

function nearTier(): Filled {
  const near = new NearTier({ maxEntries: ENTRIES, maxBytes: 1_024 * 1_048_576 }, 'secret');
  return {
    known: fill((arrival) => {
      near.end(near.begin(arrival, arrival.fingerprint)!, answerTo(arrival));
    }),
    check: (arrival) => near.find(arrival, arrival.fingerprint, RECORD.settledAt),
  };
}

function yardstick(): Filled {
  const cache = new LRUCache<string, NearAnswer>({ max: ENTRIES });
  const nameOf = ({ scope, key }: OperationId) => `${scope}\0${key}`;
  return {
    known: fill((arrival) => void cache.set(nameOf(arrival), answerTo(arrival))),
    check: (arrival) => {
      const known = cache.get(nameOf(arrival));
      return known?.fingerprint === arrival.fingerprint ? known : 'mismatch';
    },
  };
}

/** As a process does it: a request arrives, and soon afterwards its answer is there. */
function fill(remember: (arrival: Arrival) => void): Arrival[] {
  return Array.from({ length: ENTRIES }, () => {
    const known = { ...nextId(), fingerprint: randomBytes(32).toString('base64url') };
    remember(asItArrives(known));
    return known;
  });
}

function answerTo({ fingerprint }: Arrival): NearAnswer {
  return new NearAnswer(
    { ...RECORD, fingerprint },
    { contentType: 't', bytes: new Uint8Array(64) },
  );
}

function measureEach(samples: number, { known, check }: Filled): number[] {
  return Object.values(SPREADS).map((among) => sample(samples, known.slice(-among), check));
}

const EACH = 500;

/** The median of many short runs, so that a GC pause does not count. */
function sample(samples: number, known: readonly Arrival[], check: Check): number {
  const runs: number[] = [];
  let at = 1;
  for (let run = 0; run < samples; run += 1) {
    const arrivals: Arrival[] = [];
    for (let i = 0; i < EACH; i += 1) {
      // A stride that is prime to their number: every lookup hits another one.
      at = (at + 7_919) % known.length;
      arrivals.push(asItArrives(known[at]!));
    }
    const found: unknown[] = new Array(EACH);
    const began = process.hrtime.bigint();
    for (let i = 0; i < EACH; i += 1) found[i] = check(arrivals[i]!);
    runs.push(Number(process.hrtime.bigint() - began) / EACH);
    const missing = found.filter((one) => !(one instanceof NearAnswer)).length;
    if (missing > 0) throw new Error(`${missing} of ${EACH} were not found`);
  }
  return median(runs);
}

/** Strings of its own, read from bytes just now: what was computed of the first ones does not help. */
function asItArrives({ scope, key, fingerprint }: Arrival): Arrival {
  return { scope: reread(scope), key: reread(key), fingerprint: reread(fingerprint) };
}

function reread(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
