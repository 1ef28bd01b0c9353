import { beforeEach, describe, expect, it } from 'vitest';
import { freshForEachTest, life, pass, server, storage } from '../../../test/client/lives.ts';
import {
  type GroupStep,
  groups,
  Outbox,
  type OutboxStorage,
  type WaitingOperation,
} from '../index.ts';

freshForEachTest();

let outbox: Outbox;
beforeEach(() => {
  outbox = life({ replayWindowMs: 24 * 60 * 60_000 });
});

const request = (item: string) => ({ url: '/do', json: { item } });
const trip: GroupStep[] = [
  { ...request('flight'), undo: request('no flight') },
  { ...request('hotel'), undo: request('no hotel') },
  request('card'),
];

describe('groups', () => {
  it('[C11] all steps happen, in order, each once', async () => {
    const { id } = await outbox.enqueueGroup(trip);
    await pass(10);
    expect(server.effects).toEqual(['flight', 'hotel', 'card']);
    expect(await outbox.find(id)).toMatchObject({ state: 'done', answers: [{}, {}, {}] });
  });

  it('[C11] when a step is refused, those before it are taken back in reverse order', async () => {
    server.refuseItem('card', 402);
    const { id } = await outbox.enqueueGroup(trip);
    await pass(10);
    expect(server.effects).toEqual(['flight', 'hotel', 'no hotel', 'no flight']);
    expect(await outbox.find(id)).toMatchObject({
      state: 'failed',
      outcome: 'undone',
      reason: 'HTTP 402',
    });
  });

  it('[C15] a step that may have happened is not taken for undone by a refusal at the door', async () => {
    server.refuseItem('hotel', 503);
    const { id } = await outbox.enqueueGroup(trip);
    await pass(10);
    server.refuseItem('hotel', 403, { type: 'problems/forbidden', happened: 'no', retry: 'never' });
    await pass(30 * 60_000);
    expect(server.effects).toEqual(['flight']);
    expect(await outbox.find(id)).toMatchObject({ state: 'failed', outcome: 'unknown' });
  });

  it('[C11] when the first step is refused there is nothing to take back', async () => {
    server.refuseItem('flight', 422);
    const { id } = await outbox.enqueueGroup(trip);
    await pass(10);
    expect(server.effects).toEqual([]);
    expect(await outbox.find(id)).toMatchObject({ state: 'failed', outcome: 'refused' });
  });

  it('[C11] however often a step is turned away, a group does not stop halfway', async () => {
    server.refuseItem('hotel', 503);
    const { id } = await outbox.enqueueGroup(trip);
    await pass(30 * 60_000);
    expect(await outbox.find(id)).toMatchObject({ state: 'waiting', cursor: 1 });
    server.accept('hotel');
    await pass(2 * 60_000);
    expect(server.effects).toEqual(['flight', 'hotel', 'card']);
  });

  it('[C11] a group that was cancelled takes back what is done, the step in flight included', async () => {
    const { id } = await outbox.enqueueGroup(trip);
    const unsubscribe = outbox.subscribe((event) => {
      if (event.type === 'sending' && event.step === 2) server.holdBack = true;
    });
    await pass(10);
    unsubscribe();
    expect(await outbox.cancel(id)).toBe('settling');
    server.release();
    await pass(10);
    expect(server.effects).toEqual(['flight', 'hotel', 'no hotel', 'no flight']);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'undone', reason: 'cancelled' });
  });

  it('[C11] what cannot be taken back is shown as stuck, and a retry goes on from there', async () => {
    server.refuseItem('card', 402);
    server.refuseItem('no hotel', 409);
    const { id } = await outbox.enqueueGroup(trip);
    await pass(10);
    expect(await outbox.find(id)).toMatchObject({ state: 'failed', outcome: 'stuck', cursor: 1 });
    server.accept('no hotel');
    await outbox.failed.retry(id);
    await pass(10);
    expect(server.effects).toEqual(['flight', 'hotel', 'no hotel', 'no flight']);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'undone' });
  });

  it('[C11] a retry of an undone group starts over under new keys', async () => {
    server.refuseItem('card', 402);
    const { id } = await outbox.enqueueGroup(trip);
    await pass(10);
    server.accept('card');
    await outbox.failed.retry(id);
    await pass(10);
    expect(server.effects.slice(4)).toEqual(['flight', 'hotel', 'card']);
    expect(new Set(server.requests.map(({ key }) => key)).size).toBe(server.requests.length);
  });

  it('[C11] a later step and an undo can use what an earlier step answered', async () => {
    server.refuseItem('the card', 402);
    await outbox.enqueueGroup([
      { ...request('a "b"'), undo: { url: '/undo/{{0.id}}', method: 'DELETE' } },
      { url: '/attach', json: { item: 'to {{0.id}}' }, undo: request('off') },
      { url: '/x', json: { item: 'the card' } },
    ]);
    await pass(10);
    expect(server.effects).toEqual(['a "b"', 'to id-of-a "b"', 'off', '/undo/id-of-a%20%22b%22']);
  });

  it.each(['/x/{{0.missing}}', '/x/{{7.id}}', '/x/{{1.id}}'])(
    '[C11] a step that asks for what no answer has, as %s, is not sent; the group turns back',
    async (url) => {
      const { id } = await outbox.enqueueGroup([
        { ...request('a'), undo: request('a off') },
        { url, json: { item: 'never' } },
      ]);
      await pass(10);
      expect(server.effects).toEqual(['a', 'a off']);
      expect(server.requests).toHaveLength(2);
      expect(await outbox.find(id)).toMatchObject({
        outcome: 'undone',
        reason: expect.stringContaining('no earlier answer'),
      });
    },
  );

  it('[C11] [C18] nor does it seem to have been sent after a crash in that moment', async () => {
    /** A life that ends as soon as an attempt of the second step is on record. */
    const dying: OutboxStorage = {
      ...storage,
      swap: async (changes) => {
        const won = await storage.swap(changes);
        const marks = changes.some(({ next }) => {
          const { cursor, begun } = Object(next) as WaitingOperation;
          return cursor === 1 && begun > 0;
        });
        return marks ? new Promise(() => {}) : won;
      },
    };
    const first = new Outbox({ storage: dying, fetch: server.fetch, groups });
    const { id } = await first.enqueueGroup([
      { ...request('a'), undo: request('a off') },
      { url: '/x/{{0.missing}}' },
    ]);
    await pass(10);
    await outbox.drain();
    await pass(10);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'undone' });
  });

  it('[C11] a group whose steps could not be taken back is refused', async () => {
    await expect(outbox.enqueueGroup([])).rejects.toThrow(/1 to 100 steps/);
    await expect(outbox.enqueueGroup([request('a'), request('b')])).rejects.toThrow(
      /step 0 needs an undo/,
    );
    server.holdBack = true;
    const { id } = await outbox.enqueueGroup(trip);
    await expect(outbox.edit(id, request('other'))).rejects.toThrow(/cannot be edited/);
  });
});
