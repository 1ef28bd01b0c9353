import { LRUCache } from 'lru-cache';
import { NearAnswer, NearTier } from '../../../packages/onceward/src/engine/near-tier.ts';
import type { OperationId } from '../../../packages/onceward/src/engine/record.ts';
import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import { nextId } from './cycles.ts';

const ENTRIES = 100_000;
const RECORD = {
  fingerprint: 'f',
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

/** Retries come soon after: a duplicate mostly meets one of the latest entries, still in the processor's caches. */
const SPREADS = {
  'near tier, duplicate of a recent one': 1_000,
  'near tier, any duplicate': ENTRIES,
};

type Check = (id: OperationId) => boolean;

interface Filled {
  readonly check: Check;
  readonly ids: readonly OperationId[];
}

function nearTier(): Filled {
  const near = new NearTier({ maxEntries: ENTRIES, maxBytes: 1_024 * 1_048_576 });
  const ids = fill((id) => near.remember(id, answer()));
  return {
    ids,
    check: (id) => near.answer(id, RECORD.settledAt)?.fingerprint === RECORD.fingerprint,
  };
}

function yardstick(): Filled {
  const cache = new LRUCache<string, NearAnswer>({ max: ENTRIES });
  const nameOf = ({ scope, key }: OperationId) => `${scope}\0${key}`;
  const ids = fill((id) => cache.set(nameOf(id), answer()));
  return { ids, check: (id) => cache.get(nameOf(id))?.fingerprint === RECORD.fingerprint };
}

/** As a process does it: a request arrives, and soon afterwards its answer is there. */
function fill(remember: (id: OperationId) => void): OperationId[] {
  return Array.from({ length: ENTRIES }, () => {
    const id = asItArrives(nextId());
    remember(id);
    return id;
  });
}

function answer(): NearAnswer {
  return new NearAnswer(RECORD, { contentType: 't', bytes: new Uint8Array(64) });
}

function measureEach(samples: number, { ids, check }: Filled): number[] {
  return Object.values(SPREADS).map((among) => sample(samples, ids.slice(-among), check));
}

const EACH = 500;

/** The median of many short runs, so that a pause of the collector does not count. */
function sample(samples: number, ids: readonly OperationId[], check: Check): number {
  const runs: number[] = [];
  let at = 1;
  for (let run = 0; run < samples; run += 1) {
    const arrivals: OperationId[] = [];
    for (let i = 0; i < EACH; i += 1) {
      // A stride that is prime to their number: every look-up meets another one.
      at = (at + 7_919) % ids.length;
      arrivals.push(asItArrives(ids[at]!));
    }
    const began = process.hrtime.bigint();
    let found = 0;
    for (const id of arrivals) if (check(id)) found += 1;
    runs.push(Number(process.hrtime.bigint() - began) / EACH);
    if (found !== EACH) throw new Error('an entry was not found');
  }
  return median(runs);
}

/** Strings of its own, read from bytes just now: what was computed of the first ones does not help. */
function asItArrives({ scope, key }: OperationId): OperationId {
  return { scope: reread(scope), key: reread(key) };
}

function reread(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
