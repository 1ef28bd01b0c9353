import { describe, expect, it } from 'vitest';
import { manualWorld } from '../../testing/manual-world.ts';
import { type Due, TimerLines } from './timer-lines.ts';

const calling = (due: () => void): Due => ({ dueAt: 0, isOver: false, due });

describe('timer lines', () => {
  it('call each one after its own duration, in order', async () => {
    const world = manualWorld();
    const lines = new TimerLines(world);
    const called: string[] = [];
    lines.start(
      100,
      calling(() => called.push('a')),
    );
    await world.advance(50);
    lines.start(
      100,
      calling(() => called.push('b')),
    );
    lines.start(
      20,
      calling(() => called.push('c')),
    );
    await world.advance(20);
    expect(called).toEqual(['c']);
    await world.advance(30);
    expect(called).toEqual(['c', 'a']);
    await world.advance(50);
    expect(called).toEqual(['c', 'a', 'b']);
  });

  it('do not call what was dropped, first, last or in between', async () => {
    const world = manualWorld();
    const lines = new TimerLines(world);
    const called: number[] = [];
    const started = Array.from({ length: 5_000 }, (_, i) => calling(() => called.push(i)));
    for (const due of started) lines.start(100, due);
    for (const [i, due] of started.entries()) due.isOver = i % 1_000 !== 7;
    await world.advance(50);
    lines.start(
      100,
      calling(() => called.push(5_000)),
    );
    await world.advance(100);
    expect(called).toEqual([7, 1_007, 2_007, 3_007, 4_007, 5_000]);
  });

  it('start again after a pause in which nothing was due', async () => {
    const world = manualWorld();
    const lines = new TimerLines(world);
    const dropped = calling(() => {});
    lines.start(10, dropped);
    dropped.isOver = true;
    await world.advance(1_000);
    let called = false;
    lines.start(
      10,
      calling(() => {
        called = true;
      }),
    );
    await world.advance(10);
    expect(called).toBe(true);
  });
});
