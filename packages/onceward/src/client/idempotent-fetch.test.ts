import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { idempotentFetch, replayInfo } from './idempotent-fetch.ts';

type Reply = Response | Error | 'silence';

/** A network that gives the replies it was given, and records what it was sent. */
function network(...replies: Reply[]) {
  const seen: { key: string | null; body: string; headers: Headers; url: string }[] = [];
  const send: typeof fetch = async (input) => {
    const request = input as Request;
    const { headers, url } = request;
    seen.push({ key: headers.get('idempotency-key'), body: await request.text(), headers, url });
    const reply = replies.shift() ?? new Response('{}', { status: 201 });
    if (reply instanceof Error) throw reply;
    if (reply !== 'silence') return reply;
    return new Promise((_, reject) => {
      request.signal.addEventListener('abort', () => reject(request.signal.reason));
    });
  };
  return { seen, fetch: send, keys: () => seen.map(({ key }) => key) };
}

const URL_ = 'https://api.test/v1/orders';
const order = { method: 'POST', body: '{"item":"widget"}' };
const lost = () => new TypeError('fetch failed');

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Lets the virtual clock run until the call has ended. */
async function ended<T>(call: Promise<T>): Promise<T> {
  let over = false;
  const watched = call.finally(() => {
    over = true;
  });
  watched.catch(() => {});
  for (let i = 0; i < 2_000 && !over; i += 1) await vi.advanceTimersByTimeAsync(1_000);
  return watched;
}

describe('idempotent fetch', () => {
  it('[C3] one operation has one key, whatever it takes', async () => {
    const { fetch, seen, keys } = network(lost(), new Response('', { status: 503 }), lost());
    const response = await ended(idempotentFetch({ fetch })(URL_, order));
    expect(response.status).toBe(201);
    expect(seen).toHaveLength(4);
    expect(new Set(keys()).size).toBe(1);
    expect(keys()[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(seen.map(({ body }) => body)).toEqual(Array(4).fill(order.body));
    expect(replayInfo(response)).toMatchObject({ key: keys()[0], attempts: 4 });
  });

  it('[C3] two operations have two keys', async () => {
    const { fetch, keys } = network();
    const send = idempotentFetch({ fetch });
    await send(URL_, order);
    await send(URL_, order);
    expect(new Set(keys()).size).toBe(2);
  });

  it('[C3] a key of the caller is used, as an option or as either header', async () => {
    const { fetch, keys, seen } = network();
    const send = idempotentFetch({ fetch });
    await send(URL_, { ...order, idempotencyKey: 'mine' });
    await send(URL_, { ...order, headers: { 'X-Idempotency-Key': 'mine-2' } });
    await send(new Request(URL_, { ...order, headers: { 'Idempotency-Key': 'mine-3' } }));
    expect(keys()).toEqual(['mine', 'mine-2', 'mine-3']);
    expect(seen[1]?.headers.get('x-idempotency-key')).toBeNull();
  });

  it('[C3] a call without effect goes straight through: no key, no retry', async () => {
    const { fetch, keys } = network(new Response('', { status: 503 }));
    const response = await idempotentFetch({ fetch })(URL_);
    expect(response.status).toBe(503);
    expect(keys()).toEqual([null]);
  });

  it('[C3] a replay is reported, with its count', async () => {
    const replay = (headers: Record<string, string>) => new Response('{}', { headers });
    const { fetch } = network(
      replay({ 'idempotency-replayed': 'true', 'idempotency-replay-count': '3' }),
      replay({ 'idempotency-replayed': 'false' }),
      replay({ 'idempotency-replayed': 'true' }),
    );
    const send = idempotentFetch({ fetch });
    const told = async () => replayInfo(await send(URL_, order));
    expect(await told()).toMatchObject({ replayed: true, replayCount: 3 });
    expect(await told()).toMatchObject({ replayed: false, replayCount: 0 });
    expect(await told()).toMatchObject({ replayed: true, replayCount: 1 });
  });

  it('[C3] Retry-After is waited for, in seconds and as a date', async () => {
    for (const inAMinute of [() => '60', () => new Date(Date.now() + 61_000).toUTCString()]) {
      const retryAfter = inAMinute();
      const busy = new Response('', { status: 503, headers: { 'retry-after': retryAfter } });
      const { fetch, seen } = network(busy);
      const call = idempotentFetch({ fetch })(URL_, order);
      await vi.advanceTimersByTimeAsync(55_000);
      expect(seen).toHaveLength(1);
      await ended(call);
      expect(seen).toHaveLength(2);
    }
  });

  it('[C3] a Retry-After beyond patience ends the call with that answer', async () => {
    const busy = new Response('', { status: 503, headers: { 'retry-after': '3600' } });
    const response = await idempotentFetch({ fetch: network(busy).fetch })(URL_, order);
    expect(response.status).toBe(503);
  });

  it('[C5] five attempts are made; then the last answer is returned, or the last failure thrown', async () => {
    const busy = Array.from({ length: 9 }, () => new Response('late', { status: 500 }));
    const answering = network(...busy);
    const response = await ended(idempotentFetch({ fetch: answering.fetch })(URL_, order));
    expect(await response.text()).toBe('late');
    expect(answering.seen).toHaveLength(5);
    const failing = network(...Array.from({ length: 9 }, lost));
    await expect(ended(idempotentFetch({ fetch: failing.fetch })(URL_, order))).rejects.toThrow(
      'fetch failed',
    );
    expect(failing.seen).toHaveLength(5);
  });

  it('[C5] a refusal is returned at once', async () => {
    const { fetch, seen } = network(new Response('no', { status: 422 }));
    const response = await idempotentFetch({ fetch })(URL_, order);
    expect(await response.text()).toBe('no');
    expect(seen).toHaveLength(1);
  });

  it('[C5] 409 CONCURRENT_REQUEST waits two seconds and asks again', async () => {
    const body = JSON.stringify({ error: { code: 'CONCURRENT_REQUEST', message: '' } });
    const busy = new Response(body, {
      status: 409,
      headers: { 'content-type': 'application/json' },
    });
    const { fetch, seen } = network(busy);
    const call = idempotentFetch({ fetch })(URL_, order);
    await vi.advanceTimersByTimeAsync(1_900);
    expect(seen).toHaveLength(1);
    expect((await ended(call)).status).toBe(201);
    expect(seen).toHaveLength(2);
  });

  it('[C5] a 401 is refreshed once, under the same key', async () => {
    const denied = () => new Response('', { status: 401 });
    const mended = network(denied());
    const refreshAuth = vi.fn(async () => ({ authorization: 'Bearer new' }));
    await ended(idempotentFetch({ fetch: mended.fetch, refreshAuth })(URL_, order));
    expect(mended.seen[1]?.headers.get('authorization')).toBe('Bearer new');
    expect(new Set(mended.keys()).size).toBe(1);
    const hopeless = network(denied(), denied(), denied());
    const response = await ended(
      idempotentFetch({ fetch: hopeless.fetch, refreshAuth })(URL_, order),
    );
    expect(response.status).toBe(401);
    expect(hopeless.seen).toHaveLength(2);
    expect(refreshAuth).toHaveBeenCalledTimes(2);
  });

  it('[C5] silence ends after the timeout, and the next attempt has the same key', async () => {
    const { fetch, keys } = network('silence');
    const response = await ended(idempotentFetch({ fetch })(URL_, order));
    expect(response.status).toBe(201);
    expect(new Set(keys()).size).toBe(1);
    expect(keys()).toHaveLength(2);
  });

  it('[C5] the caller can give up at any time', async () => {
    const waiting = new AbortController();
    const silent = network('silence');
    const inFlight = idempotentFetch({ fetch: silent.fetch })(URL_, {
      ...order,
      signal: waiting.signal,
    });
    await vi.advanceTimersByTimeAsync(10);
    waiting.abort(new Error('enough'));
    await expect(inFlight).rejects.toThrow('enough');

    const pausing = new AbortController();
    const failing = network(lost());
    const between = idempotentFetch({ fetch: failing.fetch })(URL_, {
      ...order,
      signal: pausing.signal,
    });
    await vi.advanceTimersByTimeAsync(10);
    pausing.abort(new Error('enough'));
    await expect(between).rejects.toThrow('enough');
    expect(failing.seen).toHaveLength(1);
  });

  it('[C5] an open circuit refuses at once and says for how long', async () => {
    const { fetch, seen } = network(...Array.from({ length: 20 }, lost));
    const send = idempotentFetch({
      fetch,
      breaker: { failures: 5, windowMs: 60_000, openMs: 60_000 },
    });
    await expect(ended(send(URL_, order))).rejects.toThrow('fetch failed');
    await expect(send(URL_, order)).rejects.toMatchObject({ code: 'CIRCUIT_OPEN' });
    expect(seen).toHaveLength(5);
  });
});
