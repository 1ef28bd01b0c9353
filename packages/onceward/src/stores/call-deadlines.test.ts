import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { CallDeadlines } from './call-deadlines.ts';

const same = (cause: unknown) => cause;

describe('deadlines of store calls', () => {
  it('give a result that is in time, and the failure of the call in words of the store', async () => {
    const deadlines = new CallDeadlines(5_000);
    expect(await deadlines.bound(Promise.resolve(1), same)).toBe(1);
    const failing = Promise.reject(new Error('driver'));
    const explained = deadlines.bound(failing, () => new Error('store'));
    await expect(explained).rejects.toThrow('store');
  });

  it('[E12] end a call that takes too long, and report it to the owner', async () => {
    let late = 0;
    const deadlines = new CallDeadlines(20, () => {
      late += 1;
    });
    const never = new Promise<void>(() => {});
    const results = await Promise.allSettled([
      deadlines.bound(never, same),
      deadlines.bound(never, same, () => 'no'),
    ]);
    const applied = results.map((result) => result.status === 'rejected' && result.reason.applied);
    expect(applied).toEqual(['unknown', 'no']);
    expect(late).toBe(2);
  });

  it('[E12] withhold a result that was ready too late, as after a freeze', async () => {
    const deadlines = new CallDeadlines(20);
    const result = deadlines.bound(sleep(5), same);
    const thawsAt = performance.now() + 40;
    while (performance.now() < thawsAt);
    await expect(result).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
  });

  it('bound many calls that end in any order', async () => {
    const deadlines = new CallDeadlines(5_000);
    const calls = Array.from({ length: 3_000 }, (_, at) =>
      deadlines.bound(at % 3 === 0 ? sleep(at % 7).then(() => at) : Promise.resolve(at), same),
    );
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 3_000 }, (_, at) => at));
  });
});
