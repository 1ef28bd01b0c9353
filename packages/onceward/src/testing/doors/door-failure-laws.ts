import { expect } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { troubledStore } from '../stores/troubled-store.ts';
import { type DoorLaw, Gate, newOrder, sleep, until } from './door-bench.ts';

const QUICK = { storeTimeoutMs: 200 };

/** Stores that are down, frozen or lost half-way, and handlers that are slower than their lease. */
export const DOOR_FAILURE_LAWS: readonly DoorLaw[] = [
  {
    title: '[E12] a store that is down gives 503 with Retry-After, and nothing runs',
    async check(bench) {
      const store = troubledStore(memoryStore());
      const door = await bench.open({ store });
      store.trouble = 'down';
      const began = performance.now();
      const reply = await door.send({ key: 'one' });
      expect(reply.status).toBe(503);
      expect(reply.json().type).toMatch(/\/store-unavailable$/);
      expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0);
      expect(performance.now() - began).toBeLessThan(5_000);
      store.trouble = null;
      expect(door.runs).toBe(0);
      expect((await door.send({ key: 'one' })).status).toBe(201);
    },
  },
  {
    title: '[E12] a store that is frozen gives 503, and nothing runs when it thaws',
    async check(bench) {
      const store = troubledStore(memoryStore());
      const door = await bench.open({ store, policy: QUICK });
      store.trouble = 'frozen';
      const replies = await Promise.all([door.send({ key: 'one' }), door.send({ key: 'two' })]);
      expect(replies.map(({ status }) => status)).toEqual([503, 503]);
      store.trouble = null;
      await sleep(300);
      expect(door.runs).toBe(0);
      await until('the key is free', async () => (await door.send({ key: 'one' })).status === 201);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[E12] a route may choose to run without a record, and says so',
    async check(bench) {
      const store = troubledStore(memoryStore());
      const door = await bench.open({ store, policy: { onStoreDown: 'run_unprotected' } });
      store.trouble = 'down';
      expect((await door.send({ key: 'one' })).status).toBe(201);
      expect(door.runs).toBe(1);
      expect(door.events.map(({ name }) => name)).toContain('idempotency_unrecorded');
    },
  },
  {
    title: '[E6] a store that dies while the handler runs costs its caller nothing',
    async check(bench) {
      const store = troubledStore(memoryStore());
      const door = await bench.open({
        store,
        policy: QUICK,
        answers: {
          'POST /orders': (call) => {
            store.trouble = 'frozen';
            return newOrder(call);
          },
        },
      });
      const original = await door.send({ key: 'one' });
      expect(original.status).toBe(201);
      store.trouble = null;
      await until('the record is there', async () => {
        const reply = await door.send({ key: 'one' });
        return reply.text === original.text;
      });
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[E5] a handler that outlives its lease runs once all the same',
    async check(bench) {
      const store = memoryStore();
      const options = {
        store,
        apart: true,
        policy: { leaseMs: 150, waitMs: 20_000 },
        answers: {
          'POST /orders': async (call: Parameters<typeof newOrder>[0]) => {
            await sleep(900);
            return newOrder(call);
          },
        },
      };
      const [here, there] = [await bench.open(options), await bench.open(options)];
      const replies = await Promise.all([here.send({ key: 'one' }), there.send({ key: 'one' })]);
      expect(here.runs + there.runs).toBe(1);
      expect(replies[0].text).toBe(replies[1].text);
    },
  },
  {
    title: '[E6] a leader frozen past its lease is in doubt, and it is not run again',
    async check(bench) {
      const store = memoryStore();
      const frozen = troubledStore(store);
      const gate = new Gate();
      const policy = { leaseMs: 100, waitMs: 0, storeTimeoutMs: 500 };
      const leader = await bench.open({
        store: frozen,
        apart: true,
        policy,
        answers: {
          'POST /orders': async (call) => {
            frozen.trouble = 'frozen';
            await gate.opened;
            return newOrder(call);
          },
        },
      });
      const other = await bench.open({ store, apart: true, policy });
      const first = leader.send({ key: 'one' });
      await until('the leader runs', () => leader.runs === 1);
      await until('its lease has lapsed', async () => {
        const reply = await other.send({ key: 'one' });
        return String(reply.json().type).endsWith('/outcome-unknown');
      });
      expect(other.runs).toBe(0);
      frozen.trouble = null;
      gate.open();
      await first.catch(() => {});
    },
  },
  {
    title: '[E5] a leader that was taken over gives the answer of its successor, not its own',
    async check(bench) {
      const store = memoryStore();
      const frozen = troubledStore(store);
      const gate = new Gate();
      const options = {
        apart: true,
        effect: { kind: 'external', onLapse: 'take_over' },
        policy: { leaseMs: 150, waitMs: 20_000, storeTimeoutMs: 300 },
      } as const;
      const leader = await bench.open({
        ...options,
        store: frozen,
        answers: {
          'POST /orders': async (call) => {
            frozen.trouble = 'frozen';
            await gate.opened;
            return newOrder(call);
          },
        },
      });
      const successor = await bench.open({ ...options, store });
      const first = leader.send({ key: 'one' });
      await until('the leader runs', () => leader.runs === 1);
      const second = await successor.send({ key: 'one' });
      expect(second.status).toBe(201);
      frozen.trouble = null;
      gate.open();
      const late = await first;
      expect(late.text).toBe(second.text);
      expect(late.headers['idempotency-replayed']).toBe('true');
      expect((await successor.send({ key: 'one' })).text).toBe(second.text);
    },
  },
  {
    title: '[E6] a handler that declares its outcome unknown puts its key in doubt',
    async check(bench) {
      const door = await bench.open({
        answers: {
          'POST /orders': ({ idempotency }) => {
            idempotency?.doubt();
            return { kind: 'json', status: 504, value: {} };
          },
        },
      });
      expect((await door.send({ key: 'one' })).status).toBe(504);
      const retry = await door.send({ key: 'one' });
      expect(retry.status).toBe(409);
      expect(retry.json()).toMatchObject({
        type: expect.stringMatching(/\/outcome-unknown$/),
        retry: 'same_key',
        happened: 'unknown',
      });
      expect(door.runs).toBe(1);
    },
  },
];
