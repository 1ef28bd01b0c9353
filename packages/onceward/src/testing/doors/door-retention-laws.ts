import { expect } from 'vitest';
import { memoryStore } from '../../stores/memory/index.ts';
import { bytesAnswer, type DoorLaw, newOrder, sleep } from './door-bench.ts';
import type { DoorReply } from './door-client.ts';

const SHORT = { keepCommittedMs: 1_500, keepRejectedMs: 1_500 };

/** As HTTP writes it, so long ago. */
function ago(ms: number): string {
  return new Date(Date.now() - ms).toUTCString();
}

function keptUntil({ headers }: DoorReply): number {
  return Date.parse(String(headers['idempotency-kept-until']));
}

/** Until when an answer is kept, and what is refused once it may have been forgotten. */
export const DOOR_RETENTION_LAWS: readonly DoorLaw[] = [
  {
    title: '[H20] an answer says until when it is kept, and its replays say the same',
    async check(bench) {
      const door = await bench.open({
        policy: { keepCommittedMs: 60_000 },
        answers: {
          'POST /bytes': () => bytesAnswer(Buffer.from('abc')),
          'POST /absent': () => ({ kind: 'empty', status: 404, headers: {} }),
        },
      });
      for (const [path, keptMs] of [
        ['/orders', 60_000],
        ['/bytes', 60_000],
        ['/absent', 300_000],
      ] as const) {
        const before = Date.now();
        const original = await door.send({ path, key: 'one' });
        expect(keptUntil(original)).toBeGreaterThan(before + keptMs - 1_001);
        expect(keptUntil(original)).toBeLessThanOrEqual(Date.now() + keptMs);
        const replay = await door.send({ path, key: 'one' });
        expect(replay.headers['idempotency-replayed']).toBe('true');
        expect(keptUntil(replay)).toBe(keptUntil(original));
      }
    },
  },
  {
    title: '[H20] an answer that is not kept does not say that it is',
    async check(bench) {
      const door = await bench.open({
        policy: { maxOutcomeBytes: 100 },
        answers: {
          'POST /busy': () => ({ kind: 'json', status: 503, value: {} }),
          'POST /large': () => bytesAnswer(Buffer.alloc(1_000)),
          'POST /throw': () => ({ kind: 'throw', error: new Error('on purpose') }),
        },
      });
      for (const path of ['/busy', '/large', '/throw']) {
        const { headers } = await door.send({ path, key: 'one' });
        expect(headers['idempotency-kept-until'], path).toBeUndefined();
      }
      const retry = await door.send({ path: '/large', key: 'one' });
      expect(retry.json()).toMatchObject({ happened: 'yes' });
      expect(retry.headers['idempotency-kept-until']).toBeUndefined();
      const unkeyed = await door.send();
      expect(unkeyed.headers['idempotency-kept-until']).toBeUndefined();
    },
  },
  {
    title: '[H20] a retry after its window has passed is refused with 412 and runs nothing',
    async check(bench) {
      const expire = async (profile: 'http' | 'stripe') => {
        const door = await bench.open({ profile, policy: SHORT });
        const firstSent = ago(0);
        await door.send({ key: 'one' });
        await sleep(2_600);
        const headers = { 'idempotency-first-sent': firstSent };
        const refused = await door.send({ key: 'one', headers });
        expect(refused.status).toBe(412);
        expect(refused.json()).toMatchObject({ status: 412, retry: 'never', happened: 'unknown' });
        expect(refused.json().type).toMatch(/\/key-expired$/);
        expect(refused.headers['idempotency-kept-until']).toBeUndefined();
        expect(door.events.at(-1)).toMatchObject({ name: 'idempotency_key_expired', status: 412 });
        expect(door.runs).toBe(1);
      };
      await Promise.all([expire('http'), expire('stripe')]);
    },
  },
  {
    title: '[H20] in profile sync a retry after its window is refused as KEY_EXPIRED',
    async check(bench) {
      const door = await bench.open({ profile: 'sync' });
      const key = '6f1c2b8a-7d3e-4a52-9c1b-0e5d4f3a2b1c';
      const headers = { 'repeatability-first-sent': ago(25 * 3_600_000) };
      const refused = await door.send({ key, headers });
      expect(refused.status).toBe(412);
      expect(refused.json()).toMatchObject({
        error: { code: 'KEY_EXPIRED', retry: 'never', happened: 'unknown' },
      });
      expect(door.runs).toBe(0);
    },
  },
  {
    title: '[H20] a key that is kept is replayed, however long ago it was first sent',
    async check(bench) {
      const store = memoryStore();
      const door = await bench.open({ store });
      const original = await door.send({ key: 'one' });
      const headers = { 'idempotency-first-sent': ago(3_600_000) };
      for (const one of [door, await bench.open({ store, apart: true })]) {
        const replay = await one.send({ key: 'one', headers });
        expect([replay.status, replay.text]).toEqual([201, original.text]);
        expect(replay.headers['idempotency-replayed']).toBe('true');
      }
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[H20] a request that was first sent within the window runs',
    async check(bench) {
      const door = await bench.open();
      const headers = { 'idempotency-first-sent': ago(290_000) };
      expect((await door.send({ key: 'one', headers })).status).toBe(201);
      const other = { 'Repeatability-First-Sent': ago(310_000) };
      expect((await door.send({ key: 'two', headers: other })).status).toBe(412);
      expect(door.runs).toBe(1);
    },
  },
  {
    title: '[H20] a first sending that is no single date is refused with 400 that says why',
    async check(bench) {
      const door = await bench.open({ answers: { 'POST /orders': newOrder } });
      const today = ago(0);
      for (const sent of [
        'yesterday',
        '2030-01-01T00:00:00Z',
        'Sun, 31 Feb 2027 00:00:00 GMT',
        '',
        `${today}, ${ago(10_000)}`,
      ]) {
        const refused = await door.send({
          key: 'one',
          headers: { 'idempotency-first-sent': sent },
        });
        expect(refused.status, sent).toBe(400);
        expect(refused.json().type).toMatch(/\/first-sent-invalid$/);
        expect(refused.json()).toMatchObject({ happened: 'unknown' });
        expect(refused.json().detail).toContain('Idempotency-First-Sent');
      }
      const differing = { 'idempotency-first-sent': today, 'repeatability-first-sent': ago(5_000) };
      expect((await door.send({ key: 'one', headers: differing })).status).toBe(400);
      expect(door.runs).toBe(0);
      expect((await door.send({ headers: { 'idempotency-first-sent': 'x' } })).status).toBe(201);
    },
  },
];
