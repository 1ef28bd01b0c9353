import { describe, expect, it } from 'vitest';
import { BufferBudget, type Share } from './buffer-budget.ts';

describe('[H15] the budget for held bodies', () => {
  it('grants what there is room for, and lets the rest wait in line', async () => {
    const budget = new BufferBudget(10);
    const first = budget.take(6) as Share;
    const granted: string[] = [];
    const second = Promise.resolve(budget.take(6)).then((share) => {
      granted.push('second');
      return share;
    });
    // There would be room for it, but the line is kept: a large body would otherwise wait for ever.
    const third = Promise.resolve(budget.take(1)).then(() => granted.push('third'));
    await Promise.resolve();
    expect(granted).toEqual([]);
    first.release();
    await second;
    await third;
    expect(granted).toEqual(['second', 'third']);
    expect(budget.held).toBe(7);
  });

  it('takes back a share once, however often it is given', () => {
    const budget = new BufferBudget(10);
    const share = budget.take(10) as Share;
    share.shrinkTo(4);
    share.shrinkTo(8);
    expect(budget.held).toBe(4);
    share.release();
    share.release();
    expect(budget.held).toBe(0);
  });

  it('lets a body that is larger than all of it have all of it', async () => {
    const budget = new BufferBudget(10);
    const share = await budget.take(100);
    expect(budget.held).toBe(10);
    share.release();
    expect(budget.held).toBe(0);
  });
});
