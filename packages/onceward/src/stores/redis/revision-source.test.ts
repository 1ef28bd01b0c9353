import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BLOCK_LIFE_MS, BLOCK_SIZE, RevisionSource } from './revision-source.ts';

/** A counter as the server keeps it, shared by sources. */
function counter() {
  let last = 0;
  let reservations = 0;
  return {
    get reservations() {
      return reservations;
    },
    reserve: async (count: number) => {
      reservations += 1;
      const first = last + 1;
      last += count;
      return first;
    },
  };
}

async function next(source: RevisionSource, seen = 0): Promise<number> {
  for (;;) {
    const revision = source.take(seen, performance.now());
    if (revision !== null) return revision;
    await source.renew();
  }
}

describe('the source of revisions', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('[E5] never gives a revision twice, to any process', async () => {
    const server = counter();
    const sources = [new RevisionSource(server.reserve), new RevisionSource(server.reserve)];
    const drawn: number[] = [];
    for (let at = 0; at < 3 * BLOCK_SIZE; at += 1) {
      drawn.push(await next(sources[at % 2] as RevisionSource));
    }
    expect(new Set(drawn).size).toBe(drawn.length);
  });

  it('draws one block for a thousand revisions, and the next before it runs out', async () => {
    const server = counter();
    const source = new RevisionSource(server.reserve);
    await next(source);
    for (let at = 1; at < BLOCK_SIZE; at += 1)
      expect(source.take(0, performance.now())).not.toBeNull();
    await new Promise(setImmediate);
    expect(server.reservations).toBe(2);
    expect(source.take(0, performance.now())).not.toBeNull();
  });

  it('[E5] leaves a block that is older than what was seen', async () => {
    const server = counter();
    const early = new RevisionSource(server.reserve);
    const late = new RevisionSource(server.reserve);
    await next(early);
    const seen = await next(late);
    expect(early.take(seen, performance.now())).toBeNull();
    expect(await next(early, seen)).toBeGreaterThan(seen);
  });

  it('[E5] does not draw from a block beyond its life', async () => {
    const server = counter();
    const source = new RevisionSource(server.reserve);
    await next(source);
    vi.advanceTimersByTime(BLOCK_LIFE_MS + 1);
    const meanwhile = await next(new RevisionSource(server.reserve));
    expect(source.take(0, performance.now())).toBeNull();
    expect(await next(source)).toBeGreaterThan(meanwhile);
  });
});
