import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';
import { FairShares } from './fair-shares.ts';

function takeAll(shares: FairShares, tenant: string): number {
  let taken = 0;
  while (shares.mayTake(tenant)) {
    shares.take(tenant);
    taken += 1;
  }
  return taken;
}

describe('[J2] fair shares', () => {
  it('give a tenant alone all places, and those who come later a part of the rest', () => {
    const shares = new FairShares(64);
    expect(takeAll(shares, 'a')).toBe(64);
    expect(['b', 'c', 'd', 'e', 'f'].map((tenant) => takeAll(shares, tenant))).toEqual([
      8, 4, 2, 1, 1,
    ]);
    expect(shares.mayTake('g')).toBe(false);
    expect(shares.taken).toBe(80);
    shares.giveBack('a');
    expect(shares.mayTake('a')).toBe(false);
    expect(shares.mayTake('g')).toBe(true);
  });

  it('have one place for a guest also where there is one place', () => {
    const shares = new FairShares(1);
    expect([takeAll(shares, 'a'), takeAll(shares, 'b'), takeAll(shares, 'c')]).toEqual([1, 1, 0]);
  });

  it('come back', () => {
    const shares = new FairShares(2);
    for (let round = 0; round < 10; round += 1) {
      const taken = takeAll(shares, 'a');
      for (let i = 0; i < taken; i += 1) shares.giveBack('a');
      expect(shares.taken).toBe(0);
    }
  });
});

describe('[J2] a fair queue', () => {
  it('serves tenants in turn, each in its own order, and passes over those that may have none', () => {
    const queue = new FairQueue<string>();
    for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) queue.push(item[0] ?? '', item);
    const served: (string | undefined)[] = [];
    for (let i = 0; i < 4; i += 1) served.push(queue.next(() => true));
    expect(served).toEqual(['a1', 'b1', 'c1', 'a2']);
    expect(queue.next((tenant) => tenant !== 'b')).toBe('a3');
    expect(queue.next((tenant) => tenant !== 'b')).toBeUndefined();
    expect([queue.size, queue.has('b'), queue.has('a')]).toEqual([1, true, false]);
    expect(queue.next(() => true)).toBe('b2');
    expect(queue.next(() => true)).toBeUndefined();
  });
});
