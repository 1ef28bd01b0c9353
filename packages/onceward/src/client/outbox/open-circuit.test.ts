import { describe, expect, it } from 'vitest';
import {
  freshForEachTest,
  life,
  order,
  pass,
  SECOND,
  server,
  storage,
} from '../../../test/client/lives.ts';
import type { Outbox, OutboxEvent } from '../index.ts';

freshForEachTest();

/** Six lanes whose server cannot be reached: ten failures within a second or two open the circuit. */
async function openTheCircuit(outbox: Outbox): Promise<string[]> {
  server.unreachable = true;
  const ids: string[] = [];
  for (let i = 0; i < 6; i += 1) {
    ids.push((await outbox.enqueue(order(`${i}`), { lane: `${i}` })).id);
  }
  await pass(5 * SECOND);
  server.unreachable = false;
  const { length } = server.requests;
  await pass(3 * SECOND);
  expect(server.requests).toHaveLength(length);
  return ids;
}

describe('an open circuit', () => {
  it('[C5] of an outbox lets the server alone for thirty seconds at most', async () => {
    await openTheCircuit(life());
    await pass(24 * SECOND);
    expect([...server.effects].sort()).toEqual(['0', '1', '2', '3', '4', '5']);
  });

  it('[C5] retryNow goes through it at once, and lets the other lanes go on', async () => {
    const outbox = life();
    const [first = ''] = await openTheCircuit(outbox);
    await outbox.retryNow(first);
    await pass(10);
    expect(server.effects[0]).toBe('0');
    await pass(SECOND);
    expect(server.effects).toHaveLength(6);
  });

  it('[C5] a try through it that fails keeps it open', async () => {
    const outbox = life();
    const [first = ''] = await openTheCircuit(outbox);
    const { length } = server.requests;
    server.unreachable = true;
    await outbox.retryNow(first);
    await pass(20 * SECOND);
    expect(server.requests).toHaveLength(length + 1);
    server.unreachable = false;
    await pass(15 * SECOND);
    expect(server.effects).toHaveLength(6);
  });

  it('[C5] retrying says when each lane is really tried, once for each reason', async () => {
    const outbox = life();
    const due = new Map<string, number>();
    const events: OutboxEvent[] = [];
    outbox.subscribe((event) => {
      events.push(event);
      if (event.type === 'retrying') due.set(event.id, Date.now() + event.inMs);
    });
    const ids = await openTheCircuit(outbox);
    const opened = Math.min(...ids.map((id) => due.get(id) ?? 0));
    expect(opened).toBeGreaterThan(Date.now() + 20 * SECOND);
    const told = events.length;
    // Looking at the lanes again is no news.
    await outbox.resume();
    await pass(SECOND);
    expect(events).toHaveLength(told);
    await pass(opened - Date.now() - SECOND);
    expect(server.effects).toEqual([]);
    await pass(3 * SECOND);
    expect(server.effects).toHaveLength(6);
    expect(await storage.count('waiting/')).toBe(0);
  });

  it('[C5] an operation that is queued meanwhile is told of too', async () => {
    const outbox = life();
    await openTheCircuit(outbox);
    const events: OutboxEvent[] = [];
    outbox.subscribe((event) => events.push(event));
    const { id } = await outbox.enqueue(order('late'), { lane: 'late' });
    await pass(SECOND);
    expect(events).toContainEqual({
      type: 'retrying',
      id,
      reason: 'CIRCUIT_OPEN',
      inMs: expect.any(Number),
    });
  });
});
