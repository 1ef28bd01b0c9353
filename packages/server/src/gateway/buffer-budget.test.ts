import { describe, expect, it, vi } from 'vitest';
import { BufferBudget, type Share } from './buffer-budget.ts';

function holding(budget: BufferBudget, bytes: number): Share {
  const share = budget.open();
  expect(share.tryGrow(bytes)).toBe(true);
  return share;
}

describe('[H15] the budget for held bodies', () => {
  it('grants what there is room for, and lets the rest wait in line', () => {
    const budget = new BufferBudget(10);
    const first = holding(budget, 10);
    // The first that finds no room goes over the total, so that one can always finish.
    const over = holding(budget, 6);
    const granted: string[] = [];
    for (const [name, bytes] of [
      ['large', 9],
      ['small', 1],
    ] as const) {
      const share = budget.open();
      expect(share.tryGrow(bytes)).toBe(false);
      share.growLater(bytes, () => granted.push(name));
    }
    first.shrinkTo(1);
    // There would be room for the small one, but the line is kept: a large body would otherwise wait for ever.
    expect(granted).toEqual([]);
    over.release();
    expect(granted).toEqual(['large', 'small']);
    expect(budget.held).toBe(11);
    expect(budget.waiting).toBe(0);
  });

  it('takes back a share once, however often it is given', () => {
    const budget = new BufferBudget(10);
    const share = holding(budget, 10);
    share.shrinkTo(4);
    share.shrinkTo(8);
    expect(budget.held).toBe(4);
    share.release();
    share.release();
    expect(budget.held).toBe(0);
    expect(share.tryGrow(1)).toBe(false);
  });

  it('lets a body that is larger than all of it have what it needs', () => {
    const budget = new BufferBudget(10);
    const share = holding(budget, 100);
    expect(share.tryGrow(100)).toBe(true);
    share.release();
    expect(budget.held).toBe(0);
  });

  it('removes a share that is released while waiting', () => {
    const budget = new BufferBudget(10);
    const first = holding(budget, 10);
    const over = holding(budget, 10);
    const left = budget.open();
    const granted = vi.fn();
    left.growLater(5, granted);
    left.release();
    first.release();
    over.release();
    expect(granted).not.toHaveBeenCalled();
    expect([budget.held, budget.waiting]).toEqual([0, 0]);
  });

  it('evicts stalled shares while others wait and only then', () => {
    vi.useFakeTimers();
    const budget = new BufferBudget(10);
    const still = [holding(budget, 10), holding(budget, 10)];
    for (const share of still) share.giveUp = () => share.release();
    vi.advanceTimersByTime(5_000);
    expect(budget.held).toBe(20);
    const granted = vi.fn();
    budget.open().growLater(5, granted);
    vi.advanceTimersByTime(1_000);
    expect(granted).not.toHaveBeenCalled();
    vi.advanceTimersByTime(250);
    expect(granted).toHaveBeenCalledOnce();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
});
