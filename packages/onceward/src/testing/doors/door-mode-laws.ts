import { expect } from 'vitest';
import { type DoorLaw, until } from './door-bench.ts';

/** Off, observing, and the events of both. */
export const DOOR_MODE_LAWS: readonly DoorLaw[] = [
  {
    title: '[H10] switched off, a door does nothing',
    async check(bench) {
      const door = await bench.open({ mode: 'off', required: true });
      await door.send({ key: 'one' });
      const second = await door.send({ key: 'one' });
      expect(second.headers['idempotency-replayed']).toBeUndefined();
      expect(door.runs).toBe(2);
      expect(door.events).toEqual([]);
    },
  },
  {
    title: '[H10] observing, a door counts what it would have done and changes nothing',
    async check(bench) {
      const door = await bench.open({ mode: 'observe', required: true });
      const first = await door.send({ key: 'one', body: { amount: 1 } });
      const second = await door.send({ key: 'one', body: { amount: 1 } });
      const third = await door.send({ key: 'one', body: { amount: 2 } });
      const odd = await door.send({ key: 'not a key' });
      const none = await door.send();
      for (const reply of [first, second, third, odd, none]) {
        expect(reply.status).toBe(201);
        expect(reply.headers['idempotency-replayed']).toBeUndefined();
      }
      expect(door.runs).toBe(5);
      await until('all five are emitted', () => door.events.length >= 5);
      expect(door.events.map(({ name }) => name).sort()).toEqual([
        'idempotency_cache_hit',
        'idempotency_executed',
        'idempotency_key_invalid',
        'idempotency_key_mismatch',
        'idempotency_key_missing',
      ]);
      expect(door.events.every(({ mode }) => mode === 'observe')).toBe(true);
    },
  },
  {
    title: '[H10] observing, a share of the keys is sampled, each of them always or never',
    async check(bench) {
      const door = await bench.open({ mode: 'observe', sampleRate: 0.5 });
      for (let i = 0; i < 100; i += 1) await door.send({ key: `key-${i}` });
      await until('the samples have ended', () => door.events.length > 20);
      expect(door.events.length).toBeGreaterThan(20);
      expect(door.events.length).toBeLessThan(80);
      const blind = await bench.open({ mode: 'observe', sampleRate: 0 });
      await blind.send({ key: 'one' });
      expect(blind.events).toEqual([]);
    },
  },
  {
    title: '[H11] events name the key by a masked prefix and hold nothing else of it',
    async check(bench) {
      const door = await bench.open();
      const key = 'sensitive-key-0123456789';
      const request = { key, user: 'ada-lovelace', body: { card: '4111111111111111' } };
      await door.send({ ...request, credential: 'Bearer topsecret' });
      await door.send(request);
      await door.send({ ...request, body: {} });
      expect(door.events.map(({ name }) => name)).toEqual([
        'idempotency_executed',
        'idempotency_cache_hit',
        'idempotency_key_mismatch',
      ]);
      const told = JSON.stringify(door.events);
      for (const secret of [key, 'ada-lovelace', '4111111111', 'topsecret']) {
        expect(told).not.toContain(secret);
      }
      expect(door.events[0]).toMatchObject({ method: 'POST', status: 201 });
      expect(door.events[0]?.key).toMatch(/^sensit~[0-9a-f]{8}$/);
    },
  },
];
