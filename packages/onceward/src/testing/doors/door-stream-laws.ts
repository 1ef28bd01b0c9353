import { Readable } from 'node:stream';
import { expect } from 'vitest';
import type { DoorAnswer } from './door-app.ts';
import { bytesAnswer, type DoorLaw, Gate, sleep, until } from './door-bench.ts';

const TEXT = { 'content-type': 'text/plain' };

function stream(
  pieces: () => AsyncGenerator<string>,
  headers: Readonly<Record<string, string>> = TEXT,
): DoorAnswer {
  return { kind: 'readable', headers, readable: Readable.from(pieces(), { objectMode: false }) };
}

async function* slowly(): AsyncGenerator<string> {
  for (const piece of ['one ', 'two ', 'three']) {
    yield piece;
    await sleep(20);
  }
}

/** What happens to answers that come over time, or are too large to be kept. */
export const DOOR_STREAM_LAWS: readonly DoorLaw[] = [
  {
    title: '[H9] a stream goes out as it comes, and a retry is answered that it ran',
    async check(bench) {
      const gate = new Gate();
      const door = await bench.open({
        answers: {
          'POST /orders': () =>
            stream(async function* () {
              yield 'first';
              await gate.opened;
              yield 'last';
            }),
        },
      });
      let received = '';
      const ended = new Promise<void>((resolve, reject) => {
        const sent = door.client.begin({ key: 'one' }, (response) => {
          expect(response.headers['idempotency-replayed']).toBe('false');
          response.on('data', (chunk: Buffer) => {
            received += chunk.toString();
          });
          response.on('end', resolve);
        });
        sent.on('error', reject);
      });
      await until('the first piece has come', () => received === 'first');
      gate.open();
      await ended;
      expect(received).toBe('firstlast');
      const retry = await door.send({ key: 'one' });
      expect(retry.status).toBe(409);
      expect(retry.json()).toMatchObject({
        type: expect.stringMatching(/\/response-not-retained$/),
        original_status: 200,
        retry: 'never',
        happened: 'yes',
      });
      expect(door.runs).toBe(1);
      expect(door.events.map(({ name }) => name)).toContain('idempotency_streaming_skipped');
    },
  },
  {
    title: '[H9] a stream runs again where the route chose so, and is kept where it chose that',
    async check(bench) {
      const answers = { 'POST /orders': () => stream(slowly) };
      const rerun = await bench.open({ answers, notRetained: 'rerun' });
      for (const _ of [1, 2]) {
        expect((await rerun.send({ key: 'one' })).text).toBe('one two three');
      }
      expect(rerun.runs).toBe(2);
      const kept = await bench.open({ answers, streams: 'keep' });
      await kept.send({ key: 'one' });
      const replay = await kept.send({ key: 'one' });
      expect(replay.text).toBe('one two three');
      expect(replay.headers['idempotency-replayed']).toBe('true');
      expect(replay.headers['content-type']).toMatch(/^text\/plain/);
      expect(kept.runs).toBe(1);
    },
  },
  {
    title: '[H9] a stream of a length that it declares is kept like any body',
    async check(bench) {
      const headers = { ...TEXT, 'content-length': '13' };
      const door = await bench.open({
        answers: { 'POST /orders': () => stream(slowly, headers) },
      });
      const original = await door.send({ key: 'one' });
      const replay = await door.send({ key: 'one' });
      expect([original.text, replay.text]).toEqual(['one two three', 'one two three']);
      expect(replay.headers['idempotency-replayed']).toBe('true');
      expect(door.runs).toBe(1);
    },
  },
  {
    title:
      '[H9] a body over the limit reaches its caller whole, and a retry is answered that it ran',
    async check(bench) {
      const large = Buffer.alloc(1_048_577, 'x');
      const type = { 'content-type': 'text/plain' };
      const answers = { 'POST /orders': () => bytesAnswer(large, type, 201) };
      const door = await bench.open({ answers });
      expect((await door.send({ key: 'one' })).body.equals(large)).toBe(true);
      const retry = await door.send({ key: 'one' });
      expect([retry.status, retry.json().original_status]).toEqual([409, 201]);
      expect(door.runs).toBe(1);
      expect(door.events.map(({ name }) => name)).toContain('idempotency_body_too_large');
      const rerun = await bench.open({ answers, notRetained: 'rerun' });
      await rerun.send({ key: 'one' });
      expect((await rerun.send({ key: 'one' })).status).toBe(201);
      expect(rerun.runs).toBe(2);
    },
  },
  {
    title: '[H9] a stream over the limit is not kept even where streams are',
    async check(bench) {
      const door = await bench.open({
        streams: 'keep',
        policy: { maxOutcomeBytes: 10 },
        answers: { 'POST /orders': () => stream(slowly) },
      });
      expect((await door.send({ key: 'one' })).text).toBe('one two three');
      expect((await door.send({ key: 'one' })).status).toBe(409);
    },
  },
  {
    title: '[H9] a stream that breaks off frees its key',
    async check(bench) {
      let breaks = true;
      const door = await bench.open({
        answers: {
          'POST /orders': () =>
            stream(async function* () {
              yield 'first ';
              await sleep(20);
              if (breaks) throw new Error('the source broke');
              yield 'last';
            }),
        },
        streams: 'keep',
      });
      await expect(door.send({ key: 'one' })).rejects.toThrow();
      breaks = false;
      expect((await door.send({ key: 'one' })).text).toBe('first last');
      expect((await door.send({ key: 'one' })).headers['idempotency-replayed']).toBe('true');
      expect(door.runs).toBe(2);
    },
  },
  {
    title: '[H9] a caller who leaves in the middle of a stream does not leave the key locked',
    async check(bench) {
      const gate = new Gate();
      const door = await bench.open({
        answers: {
          'POST /orders': () =>
            stream(async function* () {
              yield 'first';
              await gate.opened;
              for (let more = 0; more < 1_000; more += 1) yield 'x'.repeat(10_000);
            }),
        },
      });
      await new Promise<void>((resolve) => {
        const sent = door.client.begin({ key: 'one' }, (response) => {
          response.once('data', () => {
            sent.destroy();
            resolve();
          });
        });
        sent.on('error', () => {});
      });
      gate.open();
      const retry = await door.send({ key: 'one' });
      expect(retry.status).toBe(409);
      expect(retry.json().type).toMatch(/\/response-not-retained$/);
      expect(door.runs).toBe(1);
    },
  },
];
