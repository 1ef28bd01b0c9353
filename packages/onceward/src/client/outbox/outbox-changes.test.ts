import { describe, expect, it } from 'vitest';
import {
  changeDevice,
  DAY,
  freshForEachTest,
  HOUR,
  life,
  listFailed,
  order,
  pass,
  server,
} from '../../../test/client/lives.ts';
import { jobKeys, parseJobKey } from '../../keys/index.ts';
import { exportFailed, importFailed } from '../index.ts';

freshForEachTest();

describe('what can be done to a queued operation', () => {
  it('[C7] editing what was never sent gives it a new key and fresh attempts', async () => {
    server.refuseItem('draft', 429);
    const outbox = life();
    const { id, key } = await outbox.enqueue(order('draft'));
    await pass(2_500);
    expect(await outbox.find(id)).toMatchObject({ attempts: expect.any(Number) });
    expect(await outbox.edit(id, order('final'))).toBe('replaced');
    const edited = await outbox.find(id);
    expect(edited).toMatchObject({ state: 'waiting', attempts: 0, notBefore: 0 });
    await pass(10);
    expect(server.effects).toEqual(['final']);
    expect(server.requests.at(-1)?.key).not.toBe(key);
    expect(await outbox.findByKey(key)).toBeNull();
  });

  it('[C7] editing what is in flight waits for the old key; if that happened, the edit is set aside', async () => {
    server.holdBack = true;
    const outbox = life();
    const { id } = await outbox.enqueue(order('first'));
    await pass(1);
    expect(await outbox.edit(id, order('second'))).toBe('settling');
    server.release();
    await pass(HOUR);
    expect(server.effects).toEqual(['first']);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
    const [late] = await listFailed(outbox);
    expect(late).toMatchObject({ outcome: 'too_late' });
    expect(late?.steps[0]?.request.body).toContain('second');
    expect(await outbox.failed.retry(late?.id ?? '')).toBe(true);
    await pass(10);
    expect(server.effects).toEqual(['first', 'second']);
  });

  it('[C7] editing what is in flight and is then refused sends the edit under a new key', async () => {
    server.holdBack = true;
    server.refuseItem('first', 422);
    const outbox = life();
    const { id } = await outbox.enqueue(order('first'));
    await pass(1);
    expect(await outbox.edit(id, order('second'))).toBe('settling');
    server.release();
    await pass(10);
    expect(server.effects).toEqual(['second']);
    expect(new Set(server.requests.map((request) => request.key)).size).toBe(2);
  });

  it('[C7] cancelling: removed if never sent, settled first if in flight', async () => {
    server.refuseItem('a', 429);
    const outbox = life();
    const waiting = await outbox.enqueue(order('a'));
    await pass(10);
    expect(await outbox.cancel(waiting.id)).toBe('cancelled');
    expect(await outbox.find(waiting.id)).toBeNull();
    server.holdBack = true;
    const flying = await outbox.enqueue(order('b'));
    await pass(10);
    expect(await outbox.cancel(flying.id)).toBe('settling');
    server.release();
    await pass(10);
    expect(await outbox.find(flying.id)).toMatchObject({ state: 'done' });
    expect(await outbox.cancel(flying.id)).toBe('not_waiting');
  });

  it('[C8] a refusal is set aside with key and reason, and a retry has a new key', async () => {
    server.refuseItem('a', 422);
    const outbox = life();
    const { id, key } = await outbox.enqueue(order('a'), { label: 'An order' });
    await pass(10);
    const [failed] = await listFailed(outbox);
    expect(failed).toMatchObject({ id, outcome: 'refused', reason: 'HTTP 422', label: 'An order' });
    server.accept('a');
    expect(await outbox.failed.retry(id)).toBe(true);
    await pass(10);
    expect(server.effects).toEqual(['a']);
    expect(server.requests.map((request) => request.key).indexOf(key)).toBe(0);
    expect(server.requests.at(-1)?.key).not.toBe(key);
    expect(await outbox.failed.retry(id)).toBe(false);
  });

  it('[C8] failed operations travel as JSON lines, each once', async () => {
    server.refuseItem('a', 422);
    server.refuseItem('b', 400);
    const outbox = life();
    await outbox.enqueue(order('a'));
    await outbox.enqueue(order('b'));
    await pass(10);
    let lines = '';
    for await (const line of exportFailed(outbox)) lines += line;
    expect(lines.trimEnd().split('\n')).toHaveLength(2);

    changeDevice();
    const other = life();
    const spoiled = `${lines}\nnot json\n{"format":"other"}\n${JSON.stringify({ format: 'onceward-failed-operation/1' })}\n`;
    const report = await importFailed(other, spoiled);
    expect(report).toMatchObject({
      imported: 2,
      known: 0,
      refused: [{ line: 4 }, { line: 5 }, { line: 6 }],
    });
    expect(await importFailed(other, lines)).toMatchObject({ imported: 0, known: 2 });
    // Its ids come from another device, and must not collide with those that are given here.
    server.refuseItem('own', 422);
    const own = await other.enqueue(order('own'));
    expect(await other.whenSettled(own.id)).toMatchObject({ state: 'failed' });
    expect(await listFailed(other)).toHaveLength(3);
    await other.failed.discard(own.id);
    server.accept('a');
    const [first] = await listFailed(other);
    await other.failed.retry(first?.id ?? '');
    await pass(10);
    expect(server.effects).toEqual(['a']);
  });

  it('[C14] an unknown operation that is tried again is neither edited nor cancelled before its key is known', async () => {
    server.loseItem('a');
    const outbox = life({ replayWindowMs: 60_000 });
    const { id, key } = await outbox.enqueue(order('a'));
    await pass(HOUR);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'unknown' });
    await outbox.pause();
    await outbox.failed.retry(id);
    expect(await outbox.edit(id, order('b'))).toBe('settling');
    expect(await outbox.cancel(id)).toBe('settling');
    expect(await outbox.find(id)).toMatchObject({ state: 'waiting', steps: [{ key }] });
  });

  it('[C14] every new key is made by mintKey, so that a job that is edited, or refused and retried, has a key of its form', async () => {
    const keys = jobKeys('device-1');
    server.refuseItem('bad', 422, { happened: 'no', retry: 'new_key' });
    const outbox = life({ mintKey: () => keys.next() });
    const { id } = await outbox.enqueue(order('bad'));
    await pass(1);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'refused' });
    server.accept('bad');
    await outbox.failed.retry(id);
    await pass(1);
    await outbox.pause();
    const draft = await outbox.enqueue(order('draft'));
    await outbox.edit(draft.id, order('final'));
    await outbox.enqueueGroup([{ ...order('there'), undo: order('back') }, order('last')]);
    await outbox.resume();
    await pass(1);
    expect(server.effects).toEqual(['bad', 'final', 'there', 'last']);
    const sent = server.requests.map(({ key }) => parseJobKey(key));
    expect(sent).toHaveLength(5);
    for (const key of sent) expect(key).toMatchObject({ ok: true });
  });

  it('[C8] refusals are forgotten after thirty days; what may have happened stays until discarded', async () => {
    server.refuseItem('a', 422);
    server.loseItem('b');
    const outbox = life({ replayWindowMs: 60_000 });
    const refused = await outbox.enqueue(order('a'), { lane: 'one' });
    const unknown = await outbox.enqueue(order('b'), { lane: 'two' });
    await pass(29 * DAY);
    expect(await outbox.find(refused.id)).toMatchObject({ state: 'failed' });
    await pass(2 * DAY);
    expect(await outbox.find(refused.id)).toBeNull();
    expect(await outbox.find(unknown.id)).toMatchObject({ state: 'failed', outcome: 'unknown' });
    expect(await outbox.failed.discard(unknown.id)).toBe(true);
    expect(await outbox.find(unknown.id)).toBeNull();
  });

  it('[C10] the same payload under another key is caught within the window, if asked for', async () => {
    const asked = life({ catchDuplicatesWithinMs: HOUR });
    const first = await asked.enqueue(order('a'));
    expect(await asked.enqueue(order('a'))).toMatchObject({ status: 'duplicate', id: first.id });
    await pass(10);
    expect(await asked.enqueue(order('a'))).toMatchObject({ status: 'duplicate', state: 'done' });
    expect(await asked.enqueue(order('b'))).toMatchObject({ status: 'queued' });
    expect(await asked.enqueue(order('a'), { allowDuplicate: true })).toMatchObject({
      status: 'queued',
    });
    await pass(2 * HOUR);
    expect(await asked.enqueue(order('a'))).toMatchObject({ status: 'queued' });
  });

  it('[C14] a 403 in one tab while another tab has the same operation on its way refuses nothing', async () => {
    let refuse: (answer: Response) => void = () => {};
    const atTheDoor = new Promise<Response>((resolve) => {
      refuse = resolve;
    });
    const one = life({ fetch: () => atTheDoor });
    const { id } = await one.enqueue(order('a'));
    await pass(1);
    server.holdBack = true;
    life();
    await pass(1);
    expect(server.requests).toHaveLength(1);
    refuse(new Response('', { status: 403 }));
    await pass(1);
    expect(await one.find(id)).toMatchObject({
      state: 'waiting',
      unsettledSince: expect.any(Number),
    });
    server.release();
    await pass(1);
    expect(await one.find(id)).toMatchObject({ state: 'done' });
  });

  it('[C10] unasked, the same payload is two operations; and a refused one is no duplicate', async () => {
    const unasked = life();
    await unasked.enqueue(order('a'));
    expect(await unasked.enqueue(order('a'))).toMatchObject({ status: 'queued' });
    await pass(10);
    expect(server.effects).toEqual(['a', 'a']);
    changeDevice();
    server.refuseItem('b', 422);
    const asked = life({ catchDuplicatesWithinMs: HOUR });
    await asked.enqueue(order('b'));
    await pass(10);
    expect(await asked.enqueue(order('b'))).toMatchObject({ status: 'queued' });
  });

  it('[C4] coalescing replaces a waiting operation, only when asked and never one that was sent', async () => {
    const outbox = life({ start: false });
    const tagged = { coalesce: 'profile' };
    const first = await outbox.enqueue(order('1'), tagged);
    await outbox.enqueue(order('x'));
    const second = await outbox.enqueue(order('2'), tagged);
    expect(second.superseded).toBe(first.id);
    expect(await outbox.find(first.id)).toBeNull();
    const together = await Promise.all([
      outbox.enqueue(order('3'), tagged),
      outbox.enqueue(order('4'), tagged),
    ]);
    expect(together.map((queued) => queued.superseded)).toEqual([second.id, together[0]?.id]);
    await outbox.drain();
    expect(server.effects).toEqual(['x', '4']);
    server.loseItem('5');
    await outbox.enqueue(order('5'), tagged);
    await Promise.all([outbox.drain(), pass(35_000)]);
    expect(await outbox.enqueue(order('6'), tagged)).toMatchObject({ superseded: null });
  });
});
