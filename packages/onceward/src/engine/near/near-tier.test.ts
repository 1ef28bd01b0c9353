import { describe, expect, it } from 'vitest';
import { NearAnswer, NearTier, type Run } from './near-tier.ts';

function answer(size = 10, keepUntil = 1_000): NearAnswer {
  const record = {
    fingerprint: 'f',
    state: 'committed',
    attempt: 1,
    owner: 'o',
    settledAt: 0,
    keepUntil,
  } as const;
  return new NearAnswer(record, { contentType: 't', bytes: new Uint8Array(size) });
}

const id = (key: string, scope = 's') => ({ scope, key });

describe('near tier', () => {
  it('[E8] remembers at most maxEntries answers and evicts the one unused for longest', () => {
    const near = new NearTier({ maxEntries: 3 });
    for (const key of ['a', 'b', 'c']) near.remember(id(key), answer());
    near.find(id('a'), 'f', 0);
    near.remember(id('d'), answer());
    expect(['a', 'b', 'c', 'd'].filter((key) => near.find(id(key), 'f', 0))).toEqual([
      'a',
      'c',
      'd',
    ]);
    expect(near.size).toMatchObject({ answers: 3, evictions: 1 });
  });

  it('[E8] is bounded in bytes as well', () => {
    const near = new NearTier({ maxBytes: 100_000 });
    for (let i = 0; i < 100; i += 1) near.remember(id(`k${i}`), answer(5_000));
    expect(near.size.bytes).toBeLessThanOrEqual(100_000);
    expect(near.size.answers).toBeGreaterThan(10);
  });

  it('[E8] does not let one large answer push out all others', () => {
    const near = new NearTier({ maxBytes: 100_000 });
    near.remember(id('small'), answer());
    near.remember(id('large'), answer(90_000));
    expect(near.find(id('small'), 'f', 0)).toBeDefined();
    expect(near.find(id('large'), 'f', 0)).toBeUndefined();
  });

  it('[E8] forgets an answer when its retention ends', () => {
    const near = new NearTier();
    near.remember(id('a'), answer(10, 500));
    expect(near.find(id('a'), 'f', 499)).toBeDefined();
    expect(near.find(id('a'), 'f', 500)).toBeUndefined();
    expect(near.size).toMatchObject({ answers: 0, bytes: 0 });
  });

  it('[E8] never evicts a run, and refuses one more than maxRunning', () => {
    const near = new NearTier({ maxEntries: 1, maxRunning: 2 });
    const first = near.begin(id('a'), 'f')!;
    near.begin(id('b'), 'f');
    expect(near.begin(id('c'), 'f')).toBeNull();
    for (let i = 0; i < 10; i += 1) near.remember(id(`k${i}`), answer());
    expect(near.find(id('a'), 'f', 0)).toBe(first);
    near.end(first, null);
    expect(near.begin(id('c'), 'f')).not.toBeNull();
  });

  it('[E8] wakes everyone behind a run with its answer', () => {
    const near = new NearTier();
    const run = near.begin(id('a'), 'f')!;
    const woken: unknown[] = [];
    run.whenEnded((end) => woken.push(end));
    (near.find(id('a'), 'f', 0) as Run).whenEnded((end) => woken.push(end));
    const given = answer();
    near.end(run, given);
    run.whenEnded((end) => woken.push(end));
    expect(woken).toEqual([given, given, given]);
    expect(near.find(id('a'), 'f', 0)).toBe(given);
  });

  it('[E8] leaves the place to a run that began later', () => {
    const near = new NearTier();
    const first = near.begin(id('a'), 'f')!;
    const second = near.begin(id('a'), 'g')!;
    near.end(first, answer());
    near.remember(id('a'), answer());
    expect(near.find(id('a'), 'f', 0)).toBe(second);
    near.end(second, null);
    expect(near.find(id('a'), 'f', 0)).toBeUndefined();
    expect(near.size).toMatchObject({ answers: 0, bytes: 0, running: 0 });
  });

  it('[E8] agrees with a plain map of what it remembers, whatever is done to it', () => {
    const near = new NearTier();
    const known = new Map<string, NearAnswer>();
    let seed = 7;
    const random = (below: number) => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return (seed >>> 16) % below;
    };
    for (let turn = 0; turn < 20_000; turn += 1) {
      const one = id(`k${random(50)}`, `s${random(5)}`);
      const name = `${one.scope} ${one.key}`;
      const given = answer(random(20), 1 + random(2));
      switch (random(4)) {
        case 0:
          near.remember(one, given);
          known.set(name, given);
          break;
        case 1:
          near.forget(one);
          known.delete(name);
          break;
        case 2: {
          const kept = random(2) === 0;
          near.forget(one);
          near.end(near.begin(one, 'f')!, kept ? given : null);
          if (kept) known.set(name, given);
          else known.delete(name);
          break;
        }
        default:
          expect(near.find(one, 'f', 0)).toBe(known.get(name));
      }
      expect(near.size.answers).toBe(known.size);
    }
    for (const [name, given] of known) {
      const [scope, key] = name.split(' ') as [string, string];
      expect(near.find({ scope, key }, 'f', 0)).toBe(given);
    }
    let bytes = 0;
    for (const { outcome } of known.values()) bytes += 256 + outcome.bytes.length;
    expect(near.size).toMatchObject({ bytes, running: 0, evictions: 0 });
  });

  it('[E8] comes to rest with room for next to nothing', () => {
    for (const maxBytes of [0, 1_000, 4_096, 20_000]) {
      const near = new NearTier({ maxBytes });
      for (let i = 0; i < 2_000; i += 1) near.end(near.begin(id(`k${i}`), 'f')!, answer(100));
      expect(near.size.bytes).toBeLessThanOrEqual(maxBytes);
    }
  });

  it('[E3] [E8] tells an answer to another request from the one that is asked for', () => {
    const near = new NearTier();
    near.remember(id('a'), answer());
    expect(near.find(id('a'), 'g', 0)).toBe('mismatch');
    expect(near.find(id('a'), 'f', 0)).toBeInstanceOf(NearAnswer);
  });

  it('[E8] grows to its bound, and stays there whatever comes and goes', () => {
    const near = new NearTier({ maxEntries: 5_000 }, 'secret');
    for (let i = 0; i < 20_000; i += 1) {
      near.remember(id(`key ${i}`, `scope ${i % 7}`), answer(10, i % 3 === 0 ? 1 : 1_000));
      if (i % 2 === 0) near.find(id(`key ${i - 2_000}`, `scope ${(i - 2_000) % 7}`), 'f', 1);
      if (i % 5 === 0) near.forget(id(`key ${i - 50}`, `scope ${(i - 50) % 7}`));
    }
    expect(near.size.answers).toBeLessThanOrEqual(5_000);
    expect(near.size.bytes).toBe(near.size.answers * (256 + 10));
    let found = 0;
    for (let i = 0; i < 20_000; i += 1) {
      const known = near.find(id(`key ${i}`, `scope ${i % 7}`), 'f', 0);
      if (known instanceof NearAnswer) found += 1;
    }
    expect(found).toBe(near.size.answers);
  });

  it('[E9] keeps scopes apart', () => {
    const near = new NearTier();
    near.remember({ scope: 'a', key: 'bc' }, answer());
    expect(near.find({ scope: 'ab', key: 'c' }, 'f', 0)).toBeUndefined();
    expect(near.find({ scope: 'b', key: 'bc' }, 'f', 0)).toBeUndefined();
  });
});
