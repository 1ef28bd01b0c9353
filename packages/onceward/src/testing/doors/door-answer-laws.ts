import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { bytesAnswer, type DoorLaw } from './door-bench.ts';
import type { DoorReply } from './door-client.ts';

/** Every byte there is, many times over, in no order that compresses to nothing. */
function allBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let block = createHash('sha256').update('seed').digest();
  for (let at = 0; at < length; at += block.length) {
    block.copy(bytes, at);
    block = createHash('sha256').update(block).digest();
  }
  return bytes;
}

function expectReplay(replay: DoorReply, original: DoorReply): void {
  expect(replay.status).toBe(original.status);
  expect(replay.body.equals(original.body)).toBe(true);
  expect(replay.headers['content-type']).toBe(original.headers['content-type']);
  expect(original.headers['idempotency-replayed']).toBe('false');
  expect(replay.headers['idempotency-replayed']).toBe('true');
}

const STATUSES_KEPT = [200, 201, 202, 302, 400, 404, 409, 422];
const STATUSES_RELEASED = [401, 403, 408, 425, 429, 500, 502, 503];

/** What a replay is made of, and which answers are kept for one. */
export const DOOR_ANSWER_LAWS: readonly DoorLaw[] = [
  {
    title: '[H14] store, scope and effect are all it needs: a retry gets the answer of the first',
    async check(bench) {
      const door = await bench.open();
      const original = await door.send({ key: 'one', body: { item: 'widget' } });
      expect(original.json()).toMatchObject({ asked: { item: 'widget' } });
      expectReplay(await door.send({ key: 'one', body: { item: 'widget' } }), original);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[H4] each answer says whether it is a replay; a replay counts and names its key',
    async check(bench) {
      const door = await bench.open();
      const original = await door.send({ key: 'one' });
      expect(original.headers['idempotency-replayed']).toBe('false');
      expect(original.headers['idempotency-replay-count']).toBeUndefined();
      for (const count of ['1', '2', '3']) {
        const { headers } = await door.send({ key: '"one"' });
        expect(headers['idempotency-replayed']).toBe('true');
        expect(headers['idempotency-replay-count']).toBe(count);
        expect(headers['x-idempotency-key']).toBe('one');
      }
      const refused = await door.send({ key: 'one', body: '{}' });
      expect(refused.headers['idempotency-replayed']).toBe('false');
    },
  },
  {
    title: '[H4] each process counts its own replays, from 1',
    async check(bench) {
      const store = memoryStore();
      const doors = [await bench.open({ store }), await bench.open({ store, apart: true })];
      await doors[0]!.send({ key: 'one' });
      for (const door of doors) {
        for (const count of ['1', '2']) {
          const { headers } = await door.send({ key: 'one' });
          expect(headers['idempotency-replay-count']).toBe(count);
        }
      }
    },
  },
  {
    title: '[H5] binary bodies return byte for byte, small and at the limit',
    async check(bench) {
      const type = { 'content-type': 'application/octet-stream' };
      const door = await bench.open({
        answers: {
          'POST /small': () => bytesAnswer(allBytes(1_000), type),
          'POST /limit': () => bytesAnswer(allBytes(1_048_576), type),
        },
      });
      for (const path of ['/small', '/limit']) {
        const original = await door.send({ path, key: 'one' });
        expectReplay(await door.send({ path, key: 'one' }), original);
      }
      expect(door.runs).toBe(2);
    },
  },
  {
    title: '[H5] empty answers return as they were: 200, 204 and 304',
    async check(bench) {
      const statuses = [200, 204, 304];
      const answers = Object.fromEntries(
        statuses.map((status) => [
          `POST /${status}`,
          () => ({ kind: 'empty', status, headers: { 'x-note': 'kept' } }) as const,
        ]),
      );
      const door = await bench.open({ answers });
      for (const status of statuses) {
        const original = await door.send({ path: `/${status}`, key: 'one' });
        const replay = await door.send({ path: `/${status}`, key: 'one' });
        expect(original.status).toBe(status);
        expect(replay.headers['x-note']).toBe('kept');
        expectReplay(replay, original);
      }
      expect(door.runs).toBe(3);
    },
  },
  {
    title: '[H5] a replay has the headers of the answer, less cookies, dates and connections',
    async check(bench) {
      const headers = {
        'content-type': 'text/plain',
        'set-cookie': ['a=1', 'b=2'],
        'x-many': ['one', 'two'],
        'x-hop': 'of this connection',
        connection: 'x-hop',
        date: 'Thu, 01 Jan 1970 00:00:00 GMT',
        'www-authenticate': 'Basic',
        'cache-control': 'public, max-age=600',
        location: '/orders/7',
      };
      const door = await bench.open({
        answers: { 'POST /orders': () => bytesAnswer(Buffer.from('done'), headers, 201) },
      });
      const original = await door.send({ key: 'one' });
      expect(original.headers['set-cookie']).toEqual(['a=1', 'b=2']);
      const replay = await door.send({ key: 'one' });
      expectReplay(replay, original);
      expect(replay.headers['x-many']).toBe('one, two');
      expect(replay.headers.location).toBe('/orders/7');
      expect(replay.headers['cache-control']).toBe('no-store');
      expect(replay.headers.date).not.toBe(headers.date);
      for (const gone of ['set-cookie', 'x-hop', 'www-authenticate']) {
        expect(replay.headers[gone]).toBeUndefined();
      }
    },
  },
  {
    title: '[H5] authentication runs again before a replay',
    async check(bench) {
      const door = await bench.open();
      const original = await door.send({ key: 'one' });
      door.isOpen = false;
      const refused = await door.send({ key: 'one' });
      expect(refused.status).toBe(401);
      expect(refused.text).not.toBe(original.text);
      expect(refused.headers['idempotency-replayed']).toBeUndefined();
    },
  },
  {
    title: '[H6] answers below 500 are kept, but for those that say "not now" or "not you"',
    async check(bench) {
      const answers = Object.fromEntries(
        [...STATUSES_KEPT, ...STATUSES_RELEASED].map((status) => [
          `POST /status-${status}`,
          () => ({ kind: 'json', status, value: { status } }) as const,
        ]),
      );
      const door = await bench.open({ answers });
      for (const status of STATUSES_KEPT) {
        await door.send({ path: `/status-${status}`, key: 'one' });
        const replay = await door.send({ path: `/status-${status}`, key: 'one' });
        expect([replay.status, replay.headers['idempotency-replayed']]).toEqual([status, 'true']);
      }
      for (const status of STATUSES_RELEASED) {
        await door.send({ path: `/status-${status}`, key: 'one' });
        const second = await door.send({ path: `/status-${status}`, key: 'one' });
        expect([second.status, second.headers['idempotency-replayed']]).toEqual([status, 'false']);
      }
      expect(door.runs).toBe(STATUSES_KEPT.length + 2 * STATUSES_RELEASED.length);
    },
  },
  {
    title: '[H6] the sync profile keeps failures and gives them again',
    async check(bench) {
      const key = '550e8400-e29b-41d4-a716-446655440000';
      const door = await bench.open({
        profile: 'sync',
        answers: {
          'POST /broken': () => ({ kind: 'json', status: 500, value: { failed: true } }),
          'POST /thrown': () => ({ kind: 'throw', error: new Error('secret reason') }),
        },
      });
      const original = await door.send({ path: '/broken', key });
      expectReplay(await door.send({ path: '/broken', key }), original);
      expect((await door.send({ path: '/thrown', key })).status).toBe(500);
      const replay = await door.send({ path: '/thrown', key });
      expect(replay.status).toBe(500);
      expect(replay.headers['idempotency-replayed']).toBe('true');
      expect(door.runs).toBe(2);
    },
  },
  {
    title: '[H22] the stripe profile keeps every status but those where nothing began',
    async check(bench) {
      const kept = [200, 302, 400, 402, 404, 409, 422, 500, 502, 503];
      const released = [401, 403, 408, 425, 429];
      const answers = Object.fromEntries(
        [...kept, ...released].map((status) => [
          `POST /status-${status}`,
          () => ({ kind: 'json', status, value: { status } }) as const,
        ]),
      );
      const door = await bench.open({ profile: 'stripe', answers });
      for (const status of [...kept, ...released]) {
        const path = `/status-${status}`;
        const original = await door.send({ path, key: 'one' });
        expect([original.status, original.headers['idempotent-replayed']]).toEqual([
          status,
          undefined,
        ]);
        const second = await door.send({ path, key: 'one' });
        const mark = kept.includes(status) ? 'true' : undefined;
        expect([second.status, second.headers['idempotent-replayed']]).toEqual([status, mark]);
        expect(second.headers['idempotency-replayed']).toBe(mark ?? 'false');
      }
      expect(door.runs).toBe(kept.length + 2 * released.length);
    },
  },
  {
    title: '[H22] the stripe profile keeps what a handler throws, and says that it is a replay',
    async check(bench) {
      const door = await bench.open({
        profile: 'stripe',
        answers: { 'POST /thrown': () => ({ kind: 'throw', error: new Error('sold out') }) },
      });
      expect((await door.send({ path: '/thrown', key: 'one' })).status).toBe(500);
      const replay = await door.send({ path: '/thrown', key: 'one' });
      expect([replay.status, replay.headers['idempotent-replayed']]).toEqual([500, 'true']);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[H6] a handler that throws frees its key, and its error page is not ours',
    async check(bench) {
      let fails = true;
      const door = await bench.open({
        answers: {
          'POST /orders': () =>
            fails
              ? { kind: 'throw', error: new Error('out of stock') }
              : { kind: 'json', status: 201, value: { order: 1 } },
        },
      });
      expect((await door.send({ key: 'one' })).status).toBe(500);
      fails = false;
      expect((await door.send({ key: 'one' })).status).toBe(201);
      expect(door.runs).toBe(2);
    },
  },
  {
    title: '[H6] a hook decides which answers are kept',
    async check(bench) {
      const door = await bench.open({
        keep: ({ status }, standard) => standard && status !== 404,
        answers: { 'POST /orders': () => ({ kind: 'json', status: 404, value: {} }) },
      });
      await door.send({ key: 'one' });
      await door.send({ key: 'one' });
      expect(door.runs).toBe(2);
    },
  },
  {
    title: '[H12] refusals are problems with a stable type; the sync profile has its own envelope',
    async check(bench) {
      const door = await bench.open();
      await door.send({ key: 'a-rather-long-key' });
      const reply = await door.send({ key: 'a-rather-long-key', body: '{}' });
      expect(reply.headers['content-type']).toBe('application/problem+json');
      expect(reply.json()).toEqual({
        type: 'https://onceward.dev/problems/payload-mismatch',
        title: expect.any(String),
        status: 422,
        detail: expect.any(String),
        key_hint: expect.stringMatching(/^a-ra~[0-9a-f]{8}$/),
        retry: 'new_key',
        happened: 'no',
      });
      const sync = await bench.open({ profile: 'sync' });
      const refused = await sync.send({ key: 'nope' });
      expect(refused.headers['content-type']).toMatch(/^application\/json/);
      expect(refused.json()).toEqual({
        error: {
          code: 'IDEMPOTENCY_KEY_INVALID',
          message: expect.any(String),
          retry: 'new_key',
          happened: 'no',
        },
      });
    },
  },
];
