import { expect } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { type DoorLaw, newOrder } from './door-bench.ts';

const UUID = '550e8400-e29b-41d4-a716-446655440000';

/** Which requests are managed, and under which key. */
export const DOOR_KEY_LAWS: readonly DoorLaw[] = [
  {
    title: '[H1] a key is the same bare, quoted and under its other name',
    async check(bench) {
      const door = await bench.open();
      const first = await door.send({ key: 'one' });
      const again = [
        await door.send({ key: '"one"' }),
        await door.send({ headers: { 'x-idempotency-key': 'one' } }),
        await door.send({ key: 'one', headers: { 'x-idempotency-key': '"one"' } }),
      ];
      for (const reply of again) expect(reply.text).toBe(first.text);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[H1] two key lines, or two headers that differ, are refused and nothing runs',
    async check(bench) {
      const door = await bench.open();
      const refused = [
        await door.send({ headers: { 'idempotency-key': ['one', 'two'] } }),
        await door.send({ headers: { 'idempotency-key': ['one', 'one'] } }),
        await door.send({ key: 'one', headers: { 'x-idempotency-key': 'two' } }),
      ];
      for (const reply of refused) {
        expect(reply.status).toBe(400);
        expect(reply.json().type).toMatch(/\/key-conflict$/);
      }
      expect(door.runs).toBe(0);
    },
  },
  {
    title: '[H2] a blank, long or odd key is refused with the reason, and nothing is stored',
    async check(bench) {
      const store = memoryStore();
      const door = await bench.open({ store });
      for (const key of ['', '   ', '""', 'a b', 'a+b/c=', '"open', 'x'.repeat(201), 'ключ']) {
        const reply = await door.send({
          headers: { 'idempotency-key': Buffer.from(key).toString('latin1') },
        });
        expect(reply.status).toBe(400);
        expect(reply.headers['content-type']).toBe('application/problem+json');
        expect(reply.json().type).toMatch(/\/key-invalid$/);
        expect(String(reply.json().detail)).toContain('the key');
      }
      expect(door.runs).toBe(0);
      expect(await store.count()).toMatchObject({ pending: 0, committed: 0 });
    },
  },
  {
    title: '[H2] the sync profile takes UUIDs of version 4 only, in either case',
    async check(bench) {
      const door = await bench.open({ profile: 'sync' });
      expect((await door.send({ key: 'one' })).status).toBe(400);
      expect((await door.send({ key: UUID.replace('-41d4', '-11d4') })).status).toBe(400);
      expect((await door.send({ key: UUID.replace('-a716', '-7716') })).status).toBe(400);
      expect(door.runs).toBe(0);
      const first = await door.send({ key: UUID });
      expect((await door.send({ key: UUID.toUpperCase() })).text).toBe(first.text);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[H22] the stripe profile takes keys of 1 to 255 printable characters',
    async check(bench) {
      const door = await bench.open({ profile: 'stripe' });
      for (const key of ['x'.repeat(256), 'tab\tbed', '""']) {
        const refused = await door.send({ headers: { 'idempotency-key': key } });
        expect([refused.status, refused.json().type]).toEqual([
          400,
          expect.stringMatching(/\/key-invalid$/),
        ]);
      }
      expect(door.runs).toBe(0);
      for (const key of ['k'.repeat(255), 'order #7: 1/2 + {a}=~']) {
        const original = await door.send({ headers: { 'idempotency-key': key } });
        const replay = await door.send({ headers: { 'idempotency-key': key } });
        expect(replay.text).toBe(original.text);
        expect(replay.headers['x-idempotency-key']).toBe(key);
      }
      expect(door.runs).toBe(2);
    },
  },
  {
    title: '[H3] GET and HEAD ignore the key, and so does a path that is excluded',
    async check(bench) {
      const door = await bench.open({
        exclude: ['/health', '/open/*', /^\/v\d+\/free$/],
        answers: {
          'GET /orders': newOrder,
          'POST /health': newOrder,
          'POST /open/one': newOrder,
          'POST /v2/free': newOrder,
        },
      });
      await door.send({ method: 'GET', key: 'not valid at all' });
      await door.send({ method: 'GET', key: 'one' });
      const seen = await door.send({ method: 'GET', key: 'one' });
      expect(seen.headers['idempotency-replayed']).toBeUndefined();
      expect((await door.send({ method: 'HEAD', key: 'one' })).status).toBeLessThan(500);
      for (const path of ['/health', '/open/one', '/v2/free']) {
        const first = await door.send({ path, key: 'one' });
        const second = await door.send({ path, key: 'one' });
        expect(second.text).not.toBe(first.text);
      }
    },
  },
  {
    title: '[H3] PUT and PATCH are managed, each apart from POST',
    async check(bench) {
      const door = await bench.open({
        answers: { 'PUT /orders': newOrder, 'PATCH /orders': newOrder },
      });
      const replies = new Set<string>();
      for (const method of ['POST', 'PUT', 'PATCH', 'POST', 'PUT', 'PATCH']) {
        replies.add((await door.send({ method, key: 'one' })).text);
      }
      expect(replies.size).toBe(3);
      expect(door.runs).toBe(3);
    },
  },
  {
    title: '[H3] a request without a key runs each time, unless the route requires one',
    async check(bench) {
      const free = await bench.open();
      await free.send();
      await free.send();
      expect(free.runs).toBe(2);
      const strict = await bench.open({ required: true });
      const reply = await strict.send();
      expect(reply.status).toBe(400);
      expect(reply.json().type).toMatch(/\/key-missing$/);
      expect(strict.runs).toBe(0);
    },
  },
  {
    title: '[E9] the same key of two users, and on two routes, is two operations',
    async check(bench) {
      const door = await bench.open({ answers: { 'POST /refunds': newOrder } });
      const ada = await door.send({ key: 'one', user: 'ada' });
      const bob = await door.send({ key: 'one', user: 'bob' });
      const refund = await door.send({ key: 'one', user: 'ada', path: '/refunds' });
      expect(new Set([ada.text, bob.text, refund.text]).size).toBe(3);
      expect(bob.headers['idempotency-replayed']).toBe('false');
      expect((await door.send({ key: 'one', user: 'bob' })).text).toBe(bob.text);
      expect(door.runs).toBe(3);
    },
  },
  {
    title: '[H8] the same key with another body or query is refused while it runs and after',
    async check(bench) {
      const door = await bench.open();
      await door.send({ key: 'one', body: { amount: 1 } });
      for (const other of [
        { body: { amount: 2 } },
        { body: { amount: 1 }, path: '/orders?a=1' },
        {},
      ]) {
        const reply = await door.send({ key: 'one', ...other });
        expect(reply.status).toBe(422);
        expect(reply.json().type).toMatch(/\/payload-mismatch$/);
        expect(reply.json().retry).toBe('new_key');
      }
      expect(door.runs).toBe(1);
      expect(door.events.filter(({ name }) => name === 'idempotency_key_mismatch')).toHaveLength(3);
    },
  },
  {
    title: '[H13] bodies are compared byte by byte, and as canonical JSON where that was chosen',
    async check(bench) {
      const spelled = '{"a":1,"b":2.50}';
      const otherwise = '{ "b": 2.5, "a": 1 }';
      const raw = await bench.open();
      await raw.send({ key: 'one', body: spelled });
      expect((await raw.send({ key: 'one', body: otherwise })).status).toBe(422);
      const canonical = await bench.open({ fingerprint: 'canonical' });
      const first = await canonical.send({ key: 'one', body: spelled });
      expect((await canonical.send({ key: 'one', body: otherwise })).text).toBe(first.text);
      expect(canonical.runs).toBe(1);
    },
  },
];
