import { createServer } from 'node:http';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { withIdempotency } from '../../src/doors/node.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';

const REQUESTS = 20_000;
const PER_SOCKET = 100;
const SOCKETS_AT_ONCE = 8;

/** A generator of numbers that gives the same ones for the same seed, so that a failure can be reproduced. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 0x1_0000_0000) * sides);
  };
}

function oddText(roll: (sides: number) => number): string {
  const length = roll(12) === 0 ? 150 + roll(400) : roll(24);
  let text = '';
  for (let i = 0; i < length; i += 1) {
    const kind = roll(5);
    if (kind < 3) text += String.fromCharCode(97 + roll(26));
    else if (kind === 3) text += '"\\;,= %\t'[roll(8)];
    else text += String.fromCharCode(0x20 + roll(0xe0));
  }
  return text.replace(/\x7f/g, '');
}

/** A request that Node's parser takes, with a key, a method, a target and a body that may be anything. */
function oddRequest(roll: (sides: number) => number): Buffer {
  const method = ['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'PROPFIND'][roll(6)];
  const target = `/${encodeURIComponent(oddText(roll))}?${encodeURIComponent(oddText(roll))}`;
  const lines = [`${method} ${target} HTTP/1.1`, 'host: x'];
  const names = ['Idempotency-Key', 'idempotency-key', 'X-Idempotency-Key'];
  for (let more = roll(4); more > 0; more -= 1) lines.push(`${names[roll(3)]}: ${oddText(roll)}`);
  if (roll(3) === 0)
    lines.push(`content-type: ${['application/json', 'text/plain', '/json'][roll(3)]}`);
  const body = Buffer.from(oddText(roll), 'latin1');
  lines.push(`content-length: ${body.length}`, '', '');
  return Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), body]);
}

/** Sends requests one behind the other on one connection and gives the statuses that come back. */
function exchange(port: number, requests: readonly Buffer[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    const statuses = () => received.match(/HTTP\/1\.1 \d{3}/g) ?? [];
    socket.setTimeout(20_000, () => reject(new Error(`hangs after ${statuses().length} answers`)));
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      if (statuses().length >= requests.length) socket.end();
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(statuses()));
    socket.write(Buffer.concat(requests));
  });
}

it('[H2] whatever comes as a key is a key or a 4xx: no crash, no hang, no 5xx of ours', async () => {
  const door = await listenOn(
    createServer(
      withIdempotency(
        (_request, response) => {
          response.end('ran');
        },
        {
          store: memoryStore(),
          scopeFrom: () => 'ada',
          effect: { kind: 'external', onLapse: 'in_doubt' },
          fingerprint: 'canonical',
        },
      ),
    ),
  );
  const port = Number(new URL(door.url).port);
  const roll = dice(20_261_115);
  const seen = new Map<string, number>();
  let left = REQUESTS / PER_SOCKET;
  const work = async () => {
    while (left > 0) {
      left -= 1;
      const requests = Array.from({ length: PER_SOCKET }, () => oddRequest(roll));
      for (const status of await exchange(port, requests)) {
        seen.set(status, (seen.get(status) ?? 0) + 1);
      }
    }
  };
  await Promise.all(Array.from({ length: SOCKETS_AT_ONCE }, work));
  await door.close();
  const kinds = [...seen.keys()].map((status) => status.slice(-3));
  expect(kinds.filter((status) => !['200', '400', '422'].includes(status))).toEqual([]);
  expect(seen.get('HTTP/1.1 400')).toBeGreaterThan(REQUESTS / 10);
  expect(seen.get('HTTP/1.1 200')).toBeGreaterThan(REQUESTS / 10);
});
