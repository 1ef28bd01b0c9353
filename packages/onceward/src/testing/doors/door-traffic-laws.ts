import { expect } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { type DoorLaw, Gate, newOrder, sleep, until } from './door-bench.ts';

function many<T>(count: number, make: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, make));
}

/** Many at once, again and again, and callers who leave. */
export const DOOR_TRAFFIC_LAWS: readonly DoorLaw[] = [
  {
    title: '[H7] 50 at once are one run, and 49 get the same answer',
    async check(bench) {
      const door = await bench.open({
        answers: {
          'POST /orders': async (call) => {
            await sleep(50);
            return newOrder(call);
          },
        },
        policy: { waitMs: 20_000 },
      });
      const replies = await many(50, () => door.send({ key: 'one', body: { item: 'widget' } }));
      expect(door.runs).toBe(1);
      expect(new Set(replies.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
      const replayed = replies.filter(({ headers }) => headers['idempotency-replayed'] === 'true');
      expect(replayed).toHaveLength(49);
    },
  },
  {
    title: '[E1] two servers on one store run it once between them',
    async check(bench) {
      const store = memoryStore();
      const gate = new Gate();
      const slow = {
        store,
        apart: true,
        policy: { waitMs: 20_000 },
        answers: {
          'POST /orders': async (call: Parameters<typeof newOrder>[0]) => {
            await gate.opened;
            return newOrder(call);
          },
        },
      };
      const [here, there] = [await bench.open(slow), await bench.open(slow)];
      const sent = [
        many(10, () => here.send({ key: 'one' })),
        many(10, () => there.send({ key: 'one' })),
      ];
      await until('one of them runs', () => here.runs + there.runs > 0);
      gate.open();
      const replies = (await Promise.all(sent)).flat();
      expect(here.runs + there.runs).toBe(1);
      expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
    },
  },
  {
    title: '[H7] a duplicate waits no longer than its budget, then is refused and does not run',
    async check(bench) {
      const gate = new Gate();
      const door = await bench.open({
        policy: { waitMs: 100 },
        answers: {
          'POST /orders': async (call) => {
            await gate.opened;
            return newOrder(call);
          },
        },
      });
      const first = door.send({ key: 'one' });
      await until('the first runs', () => door.runs === 1);
      const refused = await door.send({ key: 'one' });
      expect(refused.status).toBe(409);
      expect(refused.json()).toMatchObject({
        type: expect.stringMatching(/\/in-progress$/),
        retry: 'same_key',
      });
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      const other = await door.send({ key: 'one', body: { other: true } });
      expect(other.status).toBe(422);
      gate.open();
      expect((await first).status).toBe(201);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[H6] the sync profile refuses a concurrent duplicate at once',
    async check(bench) {
      const key = '550e8400-e29b-41d4-a716-446655440000';
      const gate = new Gate();
      const door = await bench.open({
        profile: 'sync',
        answers: {
          'POST /orders': async (call) => {
            await gate.opened;
            return newOrder(call);
          },
        },
      });
      const first = door.send({ key });
      await until('the first runs', () => door.runs === 1);
      const refused = await door.send({ key });
      expect(refused.status).toBe(409);
      expect(refused.json()).toMatchObject({ error: { code: 'CONCURRENT_REQUEST' } });
      gate.open();
      await first;
    },
  },
  {
    title: '[H4] a retry sent as soon as the answer is there is a replay, 200 times of 200',
    async check(bench) {
      const door = await bench.open();
      let replays = 0;
      for (let i = 0; i < 200; i += 1) {
        const original = await door.send({ key: `key-${i}` });
        const retry = await door.send({ key: `key-${i}` });
        if (retry.headers['idempotency-replayed'] === 'true' && retry.text === original.text) {
          replays += 1;
        }
      }
      expect(replays).toBe(200);
      expect(door.runs).toBe(200);
    },
  },
  {
    title: '[E2] a caller who leaves and comes back gets the answer of the one run',
    async check(bench) {
      const gate = new Gate();
      const door = await bench.open({
        policy: { waitMs: 20_000 },
        answers: {
          'POST /orders': async (call) => {
            await gate.opened;
            return newOrder(call);
          },
        },
      });
      const left = new Promise<void>((resolve) => {
        const sent = door.client.begin({ key: 'one' }, () => {});
        sent.on('error', () => resolve());
        void until('the handler runs', () => door.runs === 1).then(() => sent.destroy());
      });
      await left;
      const retry = door.send({ key: 'one' });
      await sleep(50);
      gate.open();
      const reply = await retry;
      expect([reply.status, reply.headers['idempotency-replayed']]).toEqual([201, 'true']);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[E7] the handler knows its key, its attempt, its fence and the key to send downstream',
    async check(bench) {
      const door = await bench.open({
        answers: {
          'POST /orders': ({ idempotency }) => ({
            kind: 'json',
            status: 200,
            value: {
              key: idempotency?.key,
              replayed: idempotency?.replayed,
              attempt: idempotency?.attempt,
              fenced: (idempotency?.fence ?? 0) > 0,
              aborted: idempotency?.signal.aborted,
              downstream: idempotency?.downstreamKey,
            },
          }),
        },
      });
      expect((await door.send({ key: '"one"' })).json()).toEqual({
        key: 'one',
        replayed: false,
        attempt: 1,
        fenced: true,
        aborted: false,
        downstream: expect.stringMatching(/^[0-9a-f]{64}$/),
      });
    },
  },
];
