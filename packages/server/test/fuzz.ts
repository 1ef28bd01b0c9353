import { Random } from './random.ts';
import { exchangeRaw, type RawAnswer } from './raw-exchange.ts';
import { ADMIN } from './running-program.ts';

/** Something that must not happen, with the bytes that made it happen. */
export interface Finding {
  readonly what: string;
  readonly number: number;
  readonly request: string;
  readonly answer: string;
}

export interface FuzzOptions {
  readonly url: string;
  readonly requests: number;
  readonly seed: number;
  readonly connections: number;
  /** Behind a gateway a refusal may be the upstream's, in whatever form that chooses. */
  readonly refusalsAreOurs: boolean;
  /** Called after every thousand. */
  readonly progress?: (done: number) => void;
}

export interface FuzzResult {
  readonly findings: readonly Finding[];
  /** How often each status came back; 0 for a connection closed without a word. */
  readonly statuses: ReadonlyMap<number, number>;
}

const MOST_FINDINGS = 20;

/** Sends requests that are broken in every way that could be thought of. The same seed sends the same ones. */
export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const findings: Finding[] = [];
  const statuses = new Map<number, number>();
  let next = 0;
  const worker = async () => {
    while (next < options.requests && findings.length < MOST_FINDINGS) {
      const number = next;
      next += 1;
      const pieces = makeRequest(new Random(options.seed * 1_000_003 + number));
      const answer = await exchangeRaw(options.url, pieces);
      statuses.set(answer.status ?? 0, (statuses.get(answer.status ?? 0) ?? 0) + 1);
      const what = judge(answer, options.refusalsAreOurs);
      if (what !== null) {
        const request = Buffer.concat(pieces).toString('latin1').slice(0, 2_000);
        findings.push({ what, number, request, answer: answer.text.slice(0, 2_000) });
      }
      if (number % 1_000 === 999) options.progress?.(number + 1);
    }
  };
  await Promise.all(Array.from({ length: options.connections }, worker));
  return { findings, statuses };
}

function judge(answer: RawAnswer, refusalsAreOurs: boolean): string | null {
  if (answer.hung) return 'the server neither answered nor closed the connection';
  const { status, text } = answer;
  if (status === null) return text === '' ? null : 'the answer is not HTTP';
  if (status >= 500) return `the server blames itself with ${status}`;
  if (/\n\s+at \S+ \(|node_modules|\/src\/\w+/.test(text)) return 'a stack left the process';
  if (
    status >= 400 &&
    refusalsAreOurs &&
    !/^content-type: application\/problem\+json/im.test(text)
  ) {
    return `the refusal with ${status} is no problem+json`;
  }
  return null;
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE'] as const;
const TARGETS = [
  '/healthz',
  '/readyz',
  '/openapi.json',
  '/docs/',
  '/docs/docs.js',
  '/docs/../../package.json',
  '/demo/v1/orders',
  '/demo/v1/orders?bytes=10',
  '/demo/v1/orders?stream=1',
  '/demo/v1/effects',
  '/v1/operations/reserve',
  '/v1/operations/commit',
  '/v1/operations/reject',
  '/v1/operations/renew',
  '/v1/operations/release',
  '/v1/operations/s/k',
  '/admin/idempotency/recent?limit=5',
  '/admin/idempotency/s/k',
  '/admin/idempotency/s/k/extend',
  '/admin/idempotency/s/k/resolve',
  '/admin/audit?limit=2',
  '/admin/stats',
  '/credentials/ak_x',
  '/nowhere',
] as const;
const KEYS = [
  'order-1',
  '"order-1"',
  '"open',
  '',
  ' ',
  'a b',
  'k'.repeat(201),
  'ключ',
  '550e8400-e29b-41d4-a716-446655440000',
  'a,b',
] as const;
const VALUES = [
  'null',
  'true',
  '0',
  '-1',
  '1e400',
  '9007199254740993',
  '""',
  '"k"',
  '"\\u0000"',
  '"\\ud800"',
  '[]',
  '{}',
  '"committed"',
  '"AAAA"',
  '{"content_type":"a","body_base64":"AAAA"}',
] as const;
const FIELDS = [
  'scope',
  'key',
  'fingerprint',
  'lease_ms',
  'wait_ms',
  'fence',
  'outcome',
  'as',
  'reason',
  'ttl_ms',
  'item',
  'amount',
  'role',
  'tenant',
  '__proto__',
  'constructor',
] as const;
const TYPES = [
  'application/json',
  'application/json; charset=utf-8',
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  ';;;',
] as const;

function makeRequest(random: Random): Buffer[] {
  const bytes = Buffer.from(compose(random), random.chance(0.5) ? 'utf8' : 'latin1');
  const mutated = random.chance(0.4) ? mutate(random, bytes) : bytes;
  if (!random.chance(0.2)) return [mutated];
  const cut = random.below(mutated.length + 1);
  return [mutated.subarray(0, cut), mutated.subarray(cut)];
}

/** Bodies that are right, so that what comes after the first checks is reached as well. */
const RIGHT = [
  ['/demo/v1/orders', '{"item":"a","amount":1}'],
  ['/demo/v1/orders?bytes=10', '{"item":"b","amount":2}'],
  ['/v1/operations/reserve', '{"scope":"s","key":"k","fingerprint":"f","wait_ms":0}'],
  ['/v1/operations/commit', '{"scope":"s","key":"k","fence":1}'],
  ['/v1/operations/release', '{"scope":"s","key":"k","fence":2}'],
  ['/admin/idempotency/s/k/resolve', '{"as":"void","reason":"r"}'],
  ['/admin/idempotency/s/k/extend', '{"ttl_ms":1000}'],
] as const;

function compose(random: Random): string {
  const [rightTarget, rightBody] = random.pick<readonly [string, string]>(RIGHT);
  const isRight = random.chance(0.3);
  const body = isRight ? rightBody : random.chance(0.7) ? makeBody(random) : '';
  const method = isRight ? 'POST' : random.pick(METHODS);
  const target = isRight ? rightTarget : makeTarget(random);
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: localhost'];
  if (random.chance(0.8)) {
    for (const [name, value] of Object.entries(ADMIN)) lines.push(`${name}: ${value}`);
  }
  if (random.chance(0.5)) lines.push(`Idempotency-Key: ${random.pick(KEYS)}`);
  if (random.chance(0.1)) lines.push(`X-Idempotency-Key: ${random.pick(KEYS)}`);
  if (body !== '' || random.chance(0.3)) lines.push(`Content-Type: ${random.pick(TYPES)}`);
  if (random.chance(0.1)) lines.push('Expect: 100-continue');
  if (random.chance(0.05)) lines.push(`X-${'h'.repeat(random.below(20_000))}: 1`);
  if (random.chance(0.1)) {
    lines.push('Transfer-Encoding: chunked');
    const size = random.pick(['z', '-1', 'ffffffff', Buffer.byteLength(body).toString(16)]);
    return `${lines.join('\r\n')}\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`;
  }
  const wrong = random.chance(0.1) ? random.below(40) - 10 : 0;
  if (body !== '' || random.chance(0.2)) {
    lines.push(`Content-Length: ${Buffer.byteLength(body) + wrong}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

function makeTarget(random: Random): string {
  const target = random.pick<string>(TARGETS);
  if (random.chance(0.8)) return target;
  const junk = ['%', '%00', '%zz', '//', '?a=b&a=c', '?limit=x', '#f', '/..', '%F0%9F%98%80'];
  return target + random.pick(junk as [string, ...string[]]);
}

function makeBody(random: Random): string {
  if (random.chance(0.1)) return random.bytes(random.below(200)).toString('latin1');
  if (random.chance(0.05)) return '['.repeat(random.below(5_000));
  const members = Array.from({ length: random.below(7) }, () => {
    return `"${random.pick(FIELDS)}":${random.pick(VALUES)}`;
  });
  return `{${members.join(',')}}`;
}

function mutate(random: Random, bytes: Buffer): Buffer {
  let changed = bytes;
  for (let times = 1 + random.below(4); times > 0; times -= 1) {
    const at = random.below(changed.length + 1);
    switch (random.below(4)) {
      case 0:
        changed = Buffer.concat([changed.subarray(0, at), changed.subarray(at + 1)]);
        break;
      case 1:
        changed = Buffer.concat([changed.subarray(0, at), random.bytes(1), changed.subarray(at)]);
        break;
      case 2:
        changed = Buffer.from(changed);
        if (at < changed.length) changed[at] = random.below(256);
        break;
      default:
        changed = changed.subarray(0, at);
    }
  }
  return changed;
}
