import { describe, expect, it } from 'vitest';
import { freshForEachTest, life, order, pass, SECOND, server } from '../../../test/client/lives.ts';
import { answerOf } from '../index.ts';

freshForEachTest();

const NOT_RETAINED = {
  type: 'https://onceward.dev/problems/response-not-retained',
  title: 'The response was not retained',
};

describe('a server that knows that it is done, and not what it answered', () => {
  it('[C4] leaves the operation done, without an answer', async () => {
    server.refuseItem('a', 409, NOT_RETAINED);
    const outbox = life();
    const { id } = await outbox.enqueue(order('a'));
    await pass(SECOND);
    const end = await outbox.whenSettled(id);
    expect(end).toMatchObject({ state: 'done' });
    expect(answerOf(end)).toBeNull();
  });

  it('[C15] its refusal fills in nothing of a later step', async () => {
    server.refuseItem('a', 409, NOT_RETAINED);
    const outbox = life();
    const { id } = await outbox.enqueueGroup([
      { ...order('a'), undo: order('a off') },
      order('{{0.title}}'),
    ]);
    await pass(SECOND);
    expect(await outbox.whenSettled(id)).toMatchObject({ outcome: 'undone' });
    expect(server.effects).toEqual(['a off']);
  });
});
