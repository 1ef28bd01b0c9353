import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import {
  DAY,
  freshForEachTest,
  HOUR,
  life,
  listFailed,
  order,
  pass,
  SECOND,
  server,
  storage,
} from '../../../test/client/lives.ts';
import {
  answerOf,
  groups,
  idempotentFetch,
  memoryStorage,
  type OutboxOptions,
  wipe,
} from '../index.ts';

freshForEachTest();

const firstSent = () => server.requests.map(({ headers }) => headers.get('idempotency-first-sent'));

/** The answer of a server that no longer knows the key, to a request marked as sent before. */
const expired = () =>
  Response.json(
    { type: 'problems/key-expired', happened: 'unknown', retry: 'never' },
    { status: 412 },
  );

describe('how long an answer is kept', () => {
  it('[H20] a first send does not say when it was sent, a re-send of what may have happened does', async () => {
    const began = new Date().toUTCString();
    server.loseAnswers = 2;
    const outbox = life();
    const { id } = await outbox.enqueue(order('a'));
    await pass(2 * 60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
    expect(firstSent()).toEqual([null, began, began]);
  });

  it('[H20] options that are given as undefined have their defaults, the window above all', async () => {
    const blank = { replayWindowMs: undefined, concurrency: undefined, mintKey: undefined };
    const outbox = life(blank as unknown as Partial<OutboxOptions>);
    server.loseAnswers = 100;
    const { id } = await outbox.enqueue(order('a'));
    await pass(10 * 60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'unknown', code: 'WINDOW_PASSED' });
  });

  it('[H20] after an attempt that is known not to have run, it does not either', async () => {
    server.refuseNext(429, 429);
    const outbox = life();
    await outbox.enqueue(order('a'));
    await pass(60 * SECOND);
    expect(firstSent()).toEqual([null, null, null]);
  });

  it('[H20] the fetch wrapper says it on its retries', async () => {
    const began = new Date().toUTCString();
    const send = idempotentFetch({
      fetch: (request) =>
        server.fetch((request as Request).url, { headers: (request as Request).headers }),
    });
    server.refuseNext(502, 429);
    const sent = send('https://api.test/a', { method: 'POST', body: '{"item":"a"}' });
    await pass(60 * SECOND);
    expect((await sent).status).toBe(201);
    expect(firstSent()).toEqual([null, began, began]);
  });

  it('[H20] neither says it where that is turned off, so that a server of another origin that allows the key alone takes repeats', async () => {
    /** The browser's own check of another origin: a header that is not allowed, and the request is never sent. */
    const crossOrigin: typeof fetch = async (input, init) => {
      const { url, headers } = new Request(
        new URL(String(Object(input).url ?? input), 'https://api.test'),
        {
          headers: Object(input).headers ?? init?.headers,
        },
      );
      if (headers.has('idempotency-first-sent')) throw new TypeError('Failed to fetch');
      return server.fetch(url, { headers, body: init?.body ?? '{"item":"b"}' });
    };
    server.loseAnswers = 2;
    const outbox = life({ fetch: crossOrigin, firstSent: false });
    const { id } = await outbox.enqueue(order('a'));
    await pass(2 * 60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done', answers: [{ replayed: true }] });

    server.refuseNext(502);
    const send = idempotentFetch({ fetch: crossOrigin, firstSent: false });
    const sent = send('https://api.test/b', { method: 'POST', body: '{"item":"b"}' });
    await pass(2 * 60 * SECOND);
    expect((await sent).status).toBe(201);
    expect(firstSent()).toEqual([null, null, null, null, null]);
  });

  it('[H20] [C14] a key that has expired is unknown, keeps its key, and a person who retries it says when it was sent', async () => {
    const began = new Date().toUTCString();
    let forgets = false;
    server.loseAnswers = 1;
    const outbox = life({
      replayWindowMs: DAY,
      fetch: async (input, init) => {
        const isLate = new Headers(init?.headers).has('idempotency-first-sent');
        const answer = await server.fetch(input, init);
        return forgets && isLate ? expired() : answer;
      },
    });
    const { id, key } = await outbox.enqueue(order('a'));
    await pass(SECOND);
    forgets = true;
    await pass(60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({
      outcome: 'unknown',
      code: 'IN_DOUBT',
      steps: [{ key }],
    });
    await pass(2 * DAY);
    await outbox.failed.retry(id);
    await pass(60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'unknown', steps: [{ key }] });
    expect(firstSent().at(-1)).toBe(began);
    expect(server.effects).toEqual(['a']);
  });

  it('[H20] by default the outbox counts on five minutes, as profile http keeps answers', async () => {
    server.loseAnswers = 1;
    const first = life();
    const { id } = await first.enqueue(order('a'));
    await pass(1);
    await first.close();
    await pass(6 * 60 * SECOND);
    server.forgetKeys();
    const second = life();
    await pass(SECOND);
    expect(await second.find(id)).toMatchObject({ outcome: 'unknown', code: 'WINDOW_PASSED' });
    expect(server.effects).toEqual(['a']);
  });

  it('[C14] what a person retries after a doubt is not called refused by a refusal at the door', async () => {
    server.loseAnswers = 1;
    const first = life();
    const { id, key } = await first.enqueue(order('a'));
    await pass(1);
    await first.close();
    await pass(HOUR);
    const outbox = life({ fetch: async () => new Response('', { status: 403 }) });
    await pass(SECOND);
    await outbox.failed.retry(id);
    await pass(10 * 60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'unknown', steps: [{ key }] });
  });
});

describe('patience', () => {
  it('[C18] is measured in time: "not now" for a day is waited for, then it is given up', async () => {
    server.refuseItem('a', 429);
    const outbox = life();
    const { id } = await outbox.enqueue(order('a'));
    await pass(23 * HOUR);
    expect(await outbox.find(id)).toMatchObject({ state: 'waiting', attempts: 0 });
    await pass(2 * HOUR);
    expect(await outbox.find(id)).toMatchObject({
      outcome: 'refused',
      code: 'GAVE_UP',
      answer: { status: 429 },
    });
  });

  it('[C18] giveUpAfterMs says how long', async () => {
    server.refuseItem('a', 503);
    const outbox = life({ giveUpAfterMs: 60 * SECOND });
    const { id } = await outbox.enqueue(order('a'));
    await pass(2 * 60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'unknown', code: 'GAVE_UP' });
  });

  it('[C18] a clock that is set back half an hour does not delay a retry by that', async () => {
    server.refuseNext(429);
    const first = life();
    const { id } = await first.enqueue(order('a'));
    await pass(10);
    await first.close();
    vi.setSystemTime(Date.now() - 30 * 60 * SECOND);
    const second = life();
    await pass(5 * SECOND);
    expect(await second.find(id)).toMatchObject({ state: 'done' });
  });
});

describe('what became of it', () => {
  it('[C18] the answer of a success and of a refusal can be read as what it is', async () => {
    const refusing: typeof fetch = async (input, init) =>
      String(input).endsWith('/no')
        ? Response.json({ title: 'No' }, { status: 422 })
        : server.fetch(input, init);
    const outbox = life({ fetch: refusing });
    const done = await outbox.enqueue(order('a'));
    const refused = await outbox.enqueue({ url: '/no' });
    await pass(SECOND);
    expect(answerOf<{ id: string }>(await outbox.whenSettled(done.id))?.id).toBe('id-of-a');
    expect(answerOf<{ title: string }>(await outbox.whenSettled(refused.id))?.title).toBe('No');
    expect(answerOf(null)).toBeNull();
  });

  it('[C15] the first cause of a group survives an undo that is refused', async () => {
    server.refuseItem('card', 402);
    server.refuseItem('no flight', 409);
    const outbox = life();
    const { id } = await outbox.enqueueGroup([
      { ...order('flight'), undo: order('no flight') },
      order('card'),
    ]);
    await pass(SECOND);
    expect(await outbox.find(id)).toMatchObject({
      outcome: 'stuck',
      reason: 'HTTP 409',
      cause: 'HTTP 402',
      answer: { status: 409 },
    });
    server.accept('no flight');
    await outbox.failed.retry(id);
    await pass(SECOND);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'undone', reason: 'HTTP 402' });
  });

  it('[C11] a page that does not know groups leaves them to those that do, and says what is missing', async () => {
    const knowing = life({ start: false });
    const { id } = await knowing.enqueueGroup([order('a')]);
    const plain = life({ start: false, groups: undefined as never });
    await plain.drain();
    expect(server.requests).toEqual([]);
    await expect(plain.enqueueGroup([order('b')])).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await knowing.drain();
    expect(await knowing.find(id)).toMatchObject({ state: 'done' });
    expect(groups).toBeDefined();
  });

  it('[C18] credentials that no header can carry send nothing, and are asked for again', async () => {
    let token = 'zeilen\numbruch';
    const outbox = life({ auth: { headers: () => ({ authorization: token }) } });
    const { id } = await outbox.enqueue(order('a'));
    await pass(SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'waiting', unsettledSince: null });
    token = 'good';
    await pass(60 * SECOND);
    expect(server.effects).toEqual(['a']);
  });

  it('[C18] a stored request that can never be sent did not happen, and does not block its lane', async () => {
    const old = life({ start: false });
    const { id } = await old.enqueue(order('a'));
    const [entry] = await storage.read([`waiting/${id}`]);
    const text = JSON.stringify(entry).replace('"/orders"', '"http://["');
    await storage.swap([{ key: `waiting/${id}`, next: JSON.parse(text) }]);
    await old.enqueue(order('b'));
    await old.drain();
    expect(await old.find(id)).toMatchObject({ outcome: 'refused', code: 'UNSENDABLE' });
    expect(server.effects).toEqual(['b']);
  });

  it('[C18] credentials that were refused are not tried again by a later life, until someone signs in', async () => {
    const asked: string[] = [];
    let isSignedIn = false;
    const guarded: typeof fetch = async (input, init) => {
      asked.push(String(input));
      return isSignedIn ? server.fetch(input, init) : new Response('', { status: 401 });
    };
    const ann = { owner: 'ann', fetch: guarded };
    const first = life(ann);
    const { id } = await first.enqueue(order('a'));
    await pass(SECOND);
    await first.close();
    expect(asked).toHaveLength(1);

    const second = life(ann);
    await second.enqueue(order('b'), { lane: 'another' });
    await pass(HOUR);
    expect(asked).toHaveLength(1);
    expect(second.status.getSnapshot().paused).toBe('auth');
    // Another user is not held up by it.
    const bob = life({ ...ann, owner: 'bob' });
    await pass(SECOND);
    expect(bob.status.getSnapshot().paused).toBeNull();

    isSignedIn = true;
    await second.resume();
    await pass(SECOND);
    expect(await second.find(id)).toMatchObject({ state: 'done' });
    expect(server.effects.toSorted()).toEqual(['a', 'b']);
  });

  it('[C18] what a service worker is refused does not pause the pages, and it stops all the same', async () => {
    const worker = life({ start: false, fetch: async () => new Response('', { status: 401 }) });
    const { id } = await worker.enqueue(order('a'));
    await worker.drain();
    const page = life();
    await pass(SECOND);
    expect(await page.find(id)).toMatchObject({ state: 'done' });
  });

  it('[C9] `whenSettled` leaves no listener on the signal it was given', async () => {
    const outbox = life();
    const { signal } = new AbortController();
    const { id } = await outbox.enqueue(order('a'));
    const settled = outbox.whenSettled(id, signal);
    await pass(SECOND);
    expect(await settled).toMatchObject({ state: 'done' });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('[C17] a wipe counts what it removed, finds what waits and what failed, and forgets payloads', async () => {
    server.refuseItem('refused', 422);
    let user = 'ann';
    const outbox = life({ owner: () => user, catchDuplicatesWithinMs: HOUR });
    await outbox.enqueue(order('done'));
    await outbox.enqueue(order('refused'));
    await pass(SECOND);
    await outbox.pause();
    await outbox.enqueue(order('waiting'), { coalesce: 'x' });
    expect(await listFailed(outbox)).toHaveLength(1);
    user = 'bob';
    expect(await listFailed(outbox)).toEqual([]);
    expect(await wipe(outbox, 'ann')).toEqual({ waiting: 1, failed: 1, done: 1, unknown: [] });
    const left = await storage.range({ prefix: '', limit: 100 });
    expect(left.map(({ key }) => key)).toEqual(['pause', 'position']);
  });

  it('[C17] an owner that is no text is refused', async () => {
    const outbox = life({ storage: memoryStorage(), owner: () => '' });
    await expect(outbox.enqueue(order('a'))).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });
});
