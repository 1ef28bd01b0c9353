import { LRUCache } from 'lru-cache';
import { type NearAnswer, NearTier } from '../../../packages/onceward/src/engine/near-tier.ts';
import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import { nextId } from './cycles.ts';

const ENTRIES = 100_000;

/** What a duplicate costs that the near tier knows: find, check the fingerprint, move to the front. */
export function benchNearTier(report: Report, { quick }: BenchOptions): void {
  const near = new NearTier({ maxEntries: ENTRIES, maxBytes: 1_024 * 1_048_576 });
  const yardstick = new LRUCache<string, NearAnswer>({ max: ENTRIES });
  const ids = Array.from({ length: ENTRIES }, nextId);
  for (const id of ids) {
    const answer: NearAnswer = {
      fingerprint: 'f',
      state: 'committed',
      outcome: { contentType: 't', bytes: new Uint8Array(64) },
      attempt: 1,
      owner: 'o',
      settledAt: 0,
      keepUntil: 1e15,
      replays: 0,
      used: false,
    };
    near.remember(id, answer);
    yardstick.set(`${id.scope}\0${id.key}`, answer);
  }
  const samples = quick ? 200 : 2_000;
  // Retries come soon after: a duplicate mostly meets one of the latest entries, still in the processor's caches.
  const spreads = {
    'near tier, duplicate of a recent one': 1_000,
    'near tier, any duplicate': ENTRIES,
  };
  for (const [name, among] of Object.entries(spreads)) {
    const pick = (i: number) => ids[(ENTRIES - among + i) % ENTRIES]!;
    const value = sample(samples, among, (i) => near.answer(pick(i), 1)?.fingerprint === 'f');
    const theirs = sample(samples, among, (i) => {
      const id = pick(i);
      return yardstick.get(`${id.scope}\0${id.key}`)?.fingerprint === 'f';
    });
    const figure = { bench: 'engine', case: name, metric: 'ns median', value } as const;
    report({ ...figure, against: 'lru-cache', ratio: value / theirs });
  }
}

/** The median of many short runs, so that a pause of the collector does not count. */
function sample(samples: number, among: number, check: (i: number) => boolean): number {
  const runs: number[] = [];
  const each = 500;
  let at = 1;
  for (let run = 0; run < samples; run += 1) {
    const began = process.hrtime.bigint();
    let found = 0;
    for (let i = 0; i < each; i += 1) {
      // A stride that is prime to their number: every look-up meets another one.
      at = (at + 7_919) % among;
      if (check(at)) found += 1;
    }
    runs.push(Number(process.hrtime.bigint() - began) / each);
    if (found !== each) throw new Error('an entry was not found');
  }
  return median(runs);
}
