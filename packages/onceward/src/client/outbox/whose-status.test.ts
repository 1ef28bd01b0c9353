import { describe, expect, it } from 'vitest';
import { freshForEachTest, life, order, pass, SECOND, server } from '../../../test/client/lives.ts';
import type { OutboxEvent } from '../index.ts';

freshForEachTest();

describe('a user who signs in after another', () => {
  it('[C4] sees a status of their own when resume was called, and an event says so', async () => {
    let user = 'ann';
    const outbox = life({ owner: () => user });
    const events: OutboxEvent[] = [];
    outbox.subscribe((event) => events.push(event));
    server.refuseNext(401);
    await outbox.enqueue(order('a'));
    await pass(SECOND);
    expect(outbox.status.getSnapshot()).toMatchObject({ paused: 'auth', waiting: 1 });
    user = 'bob';
    await outbox.resume();
    await pass(SECOND);
    expect(outbox.status.getSnapshot()).toMatchObject({ paused: null, waiting: 0 });
    expect(events.at(-1)).toEqual({ type: 'resumed' });
    user = 'ann';
    await outbox.resume();
    await pass(SECOND);
    expect(server.effects).toEqual(['a']);
  });

  it('[C4] without a pause, resume has the counts of the new owner', async () => {
    let user = 'ann';
    const outbox = life({
      owner: () => user,
      connectivity: { online: () => false, listen: () => () => {} },
    });
    await outbox.enqueue(order('a'));
    await pass(SECOND);
    expect(outbox.status.getSnapshot().waiting).toBe(1);
    user = 'bob';
    await outbox.resume();
    await pass(SECOND);
    expect(outbox.status.getSnapshot().waiting).toBe(0);
  });

  it('[C5] no retrying event goes with a 401: the outbox is paused, and says so', async () => {
    const outbox = life();
    const events: string[] = [];
    outbox.subscribe(({ type }) => events.push(type));
    server.refuseNext(401);
    await outbox.enqueue(order('a'));
    await pass(SECOND);
    expect(events).toEqual(['queued', 'sending', 'paused']);
  });
});
