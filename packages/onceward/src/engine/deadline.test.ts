import { describe, expect, it } from 'vitest';
import { manualWorld } from '../testing/manual-world.ts';
import { Deadlines } from './deadline.ts';

describe('deadlines', () => {
  it('[E12] pass a result through, also when thousands are open', async () => {
    const world = manualWorld();
    const deadlines = new Deadlines(world);
    const calls = Array.from({ length: 5_000 }, (_, i) =>
      deadlines.bound(
        100,
        new Promise<number>((resolve) => world.startTimer(i % 90, () => resolve(i))),
      ),
    );
    await world.advance(95);
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 5_000 }, (_, i) => i));
  });

  it('[E12] end each call at its own time, with an outcome that is unknown', async () => {
    const world = manualWorld();
    const deadlines = new Deadlines(world);
    const ended: string[] = [];
    const track = (name: string, ms: number) =>
      deadlines
        .bound(ms, new Promise(() => {}))
        .catch((error) => ended.push(`${name} ${error.applied}`));
    const open = [track('a', 100)];
    await world.advance(50);
    open.push(track('b', 100), track('c', 20));
    await world.advance(20);
    expect(ended).toEqual(['c unknown']);
    await world.advance(30);
    expect(ended).toEqual(['c unknown', 'a unknown']);
    await world.advance(50);
    expect(ended).toEqual(['c unknown', 'a unknown', 'b unknown']);
    await Promise.all(open);
  });

  it('pass a failure through', async () => {
    const deadlines = new Deadlines(manualWorld());
    await expect(deadlines.bound(10, Promise.reject(new Error('no')))).rejects.toThrow('no');
  });
});
