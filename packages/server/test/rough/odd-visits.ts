import { setTimeout as sleep } from 'node:timers/promises';
import { chunked, spell, wholeOf } from './operation.ts';
import { MANNERS, RawClient } from './raw-client.ts';
import type { Draw, Visit } from './visit.ts';

const PROTOCOLS = ['websocket', 'h2c', 'TLS/1.0', 'x', 'websocket, h2c', ',', '"'] as const;

/** Asks for another protocol, with and without a body and a key. */
export function upgrades({ random, host, key, plain }: Draw): Visit {
  const operation = random.chance(0.6) ? key() : plain();
  const protocol = random.pick(PROTOCOLS);
  const more: [string, string][] = [
    ['Connection', random.pick(['Upgrade', 'Upgrade, HTTP2-Settings', 'keep-alive, Upgrade'])],
    ['Upgrade', protocol],
    ['HTTP2-Settings', 'AAMAAABkAAQAoAAAAAIAAAAA'],
    ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
    ['Sec-WebSocket-Version', '13'],
  ];
  const bytes = wholeOf(spell(operation, host, random, { more }));
  const manner = random.pick(MANNERS);
  const afterwards = random.bytes(random.below(200));
  return {
    about: `${operation.method} ${operation.target} with Upgrade: ${protocol}, left (${manner})`,
    async go(scene) {
      scene.told.asked(operation);
      const client = new RawClient(scene.url);
      client.write(bytes);
      await client.until(() => client.answers.some(({ whole }) => whole), 3_000);
      for (const answer of client.answers.slice(0, 1)) scene.told.heard(operation, answer);
      if (client.answers[0]?.status === 101) {
        client.write(afterwards);
        await sleep(5);
      }
      client.leave(manner);
    },
  };
}

/** Bodies that are longer than the target reads. */
export function oversizes({ random, host, key, maxBytes }: Draw): Visit {
  const body = 'y'.repeat(maxBytes + 1 + random.below(maxBytes));
  const operation = { ...key(), body, ends: [] };
  const framing = random.pick(['declared', 'chunked'] as const);
  const bytes = wholeOf(spell(operation, host, random, { framing }));
  const manner = random.pick(MANNERS);
  return {
    about: `${operation.target} ${framing} with ${body.length} bytes, left (${manner})`,
    async go(scene) {
      scene.told.asked(operation);
      const client = new RawClient(scene.url);
      client.write(bytes);
      await client.until(() => client.answers.some(({ whole }) => whole), 3_000);
      for (const answer of client.answers) scene.told.heard(operation, answer);
      client.leave(manner);
    },
  };
}

const TARGETS = [
  '//',
  '//127.0.0.1:TRAP/secret',
  'http://127.0.0.1:TRAP/secret',
  'http://localhost/x',
  '*',
  '/%2e%2e/%2e%2e/x',
  '/a%2Fb%2f..%2f..%2fc',
  '/%00',
  '/\0',
  '/x?%',
  '/%zz',
  '/\\..\\x',
  '?',
  '#',
  '127.0.0.1:TRAP',
  '/ HTTP/1.1 /',
  '///',
  '/;a=b',
  'HTTP://[::1',
  '//[',
] as const;
const METHODS = ['GET', 'POST', 'OPTIONS', 'CONNECT', 'HEAD', 'DELETE', 'PRI', 'get'] as const;
const LINES = [
  'Content-Length: -1',
  'Content-Length: 5, 5',
  'Content-Length: 5\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: chunked, chunked',
  'Host: other',
  'Connection: Upgrade\r\nUpgrade: websocket',
  'Connection: Upgrade\r\nUpgrade: h2c',
  'Connection: close, keep-alive',
  'Expect: 200-maybe',
  'Expect: 100-continue',
  'Idempotency-Key: ',
  'Idempotency-Key: "a"\r\nIdempotency-Key: "b"',
  'X: a\r\n b',
  'X\0: 1',
  ': 1',
  'X-Long: LONG',
] as const;

/** Heads and targets that are wrong, or right and seldom seen. `trap` is a port that nobody may be led to. */
export function malformed({ random, host }: Draw, trap: number): Visit {
  const method = random.pick<string>(METHODS);
  const target = random.pick<string>(TARGETS).replace('TRAP', String(trap));
  const lines = Array.from({ length: random.below(3) }, () => random.pick<string>(LINES));
  const head = `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines
    .map((line) => `${line.replace('LONG', 'l'.repeat(20_000))}\r\n`)
    .join('')}\r\n`;
  const body = random.pick([
    '',
    'hello',
    '0\r\n\r\n',
    'zz\r\n',
    'ffffffffffffffffff\r\nx',
    chunked(Buffer.from('hello'), random).toString('latin1'),
  ]);
  const manner = random.pick(MANNERS);
  const shown = lines.map((line) => line.slice(0, 60)).join(' | ');
  return {
    about: `${method} ${JSON.stringify(target)} [${JSON.stringify(shown)}] ${JSON.stringify(body.slice(0, 20))}, left (${manner})`,
    async go(scene) {
      const client = new RawClient(scene.url);
      client.write(Buffer.from(head + body, 'latin1'));
      await client.until(() => client.answers.some(({ whole }) => whole), 100);
      const [answer] = client.answers;
      if (answer?.status === 500 || answer?.status === 0) {
        scene.told.complain(`${JSON.stringify(head)} was answered with ${answer.status}`);
      }
      client.leave(manner);
    },
  };
}
