import { request } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { judgeAnswer } from '../../onceward/src/client/verdict.ts';
import { newKey } from './job-client.ts';
import { type RunningGateway, startGateway } from './running-gateway.ts';
import { ADMIN, startServer } from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
let server: Awaited<ReturnType<typeof startServer>>;
let gateway: RunningGateway;
let deadEnd: RunningGateway;

beforeAll(async () => {
  server = await startServer({
    IDEMPOTENCY_PENDING_WAIT_TIMEOUT: '0.05',
    ONCEWARD_MAX_REQUEST_BYTES: '2000',
    ONCEWARD_LOG_LEVEL: 'fatal',
  });
  const quick = { ONCEWARD_UPSTREAM_TIMEOUT_SECONDS: '1', ONCEWARD_LOG_LEVEL: 'fatal' };
  gateway = await startGateway(['--upstream', await upstream.listen()], {
    ...quick,
    ONCEWARD_MAX_REQUEST_BYTES: '2000',
  });
  deadEnd = await startGateway(['--upstream', 'http://127.0.0.1:9'], quick);
});
afterAll(async () => {
  await Promise.all([server.stop(), gateway.stop(), deadEnd.stop()]);
  await upstream.close();
});

interface Asked {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

interface Told {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Node's own client: `fetch` lets neither the host nor an expectation be chosen. */
function ask(url: string, { method = 'POST', headers = {}, body }: Asked = {}): Promise<Told> {
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  const type = body === undefined ? {} : { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, agent: false, headers: { ...type, ...headers } });
    sent.on('error', reject);
    sent.on('response', (response) => {
      let told = '';
      response.setEncoding('utf8');
      response.on('data', (piece) => {
        told += piece;
      });
      response.on('end', () => {
        const list = new Headers();
        for (const [name, value] of Object.entries(response.headers)) list.set(name, String(value));
        resolve({ status: response.statusCode ?? 0, headers: list, text: told });
      });
    });
    sent.end(text);
  });
}

const ORDER = { item: 'w', amount: 1 };
let keys = 0;
const key = () => ({ 'idempotency-key': `refused-${(keys += 1)}` });

/** Orders at the demo's door. */
function order(headers: Record<string, string>, query = '', body: unknown = ORDER): Promise<Told> {
  return ask(`${server.url}/demo/v1/orders${query}`, { headers, body });
}

function job(headers: Record<string, string>, body: unknown = { type: 'echo' }): Promise<Told> {
  return ask(`${server.url}/jobs`, { headers, body });
}

function through(at: RunningGateway, path: string, headers: Record<string, string> = key()) {
  return ask(at.url + path, { headers, body: '{}' });
}

async function afterFirst(send: (headers: Record<string, string>) => Promise<unknown>) {
  const headers = key();
  await send(headers);
  return headers;
}

/** By refusal, and how it is provoked on real processes. */
const REFUSED: [name: string, happened: string, provoke: () => Promise<Told>][] = [
  ['key-invalid', 'no', () => order({ 'idempotency-key': 'no key' })],
  ['key-conflict', 'no', () => order({ ...key(), 'x-idempotency-key': 'other' })],
  ['first-sent-invalid', 'unknown', () => order({ ...key(), 'idempotency-first-sent': 'x' })],
  [
    'key-expired',
    'unknown',
    () => order({ ...key(), 'idempotency-first-sent': new Date(0).toUTCString() }),
  ],
  [
    'payload-mismatch',
    'no',
    async () => order(await afterFirst((headers) => order(headers)), '', { ...ORDER, amount: 2 }),
  ],
  [
    'in-progress',
    'unknown',
    async () => {
      const headers = key();
      const first = order(headers, '?delay_ms=500');
      await new Promise((resolve) => setTimeout(resolve, 150));
      const second = await order(headers, '?delay_ms=500');
      await first;
      return second;
    },
  ],
  ['outcome-unknown', 'unknown', () => order(key(), '?crash=1')],
  [
    'outcome-unknown',
    'unknown',
    async () => order(await afterFirst((headers) => order(headers, '?crash=1')), '?crash=1'),
  ],
  [
    'response-not-retained',
    'yes',
    async () => order(await afterFirst((headers) => order(headers, '?stream=2')), '?stream=2'),
  ],
  ['internal-error', 'unknown', () => order(key(), '?throw=1')],
  ['invalid-request', 'no', () => order(key(), '', { item: '' })],
  ['invalid-request', 'no', () => order(key(), '', '{not json')],
  ['body-too-large', 'no', () => order(key(), '', { item: 'x'.repeat(3_000), amount: 1 })],
  ['unsupported-media-type', 'no', () => order({ ...key(), 'content-type': 'text/odd' })],
  ['not-found', 'no', () => ask(`${server.url}/nowhere`)],
  ['misdirected-request', 'no', () => ask(`${server.url}/nowhere`, { headers: { host: 'evil' } })],
  ['expectation-failed', 'no', () => ask(`${server.url}/jobs`, { headers: { expect: 'more' } })],
  ['unauthorized', 'no', () => ask(`${server.url}/v1/operations/release`, { body: {} })],
  [
    'fence-lost',
    'unknown',
    () =>
      ask(`${server.url}/v1/operations/release`, {
        headers: ADMIN,
        body: { scope: 's', key: 'k', fence: 7 },
      }).then(async (released) => {
        if (released.status !== 200) return released;
        const body = { scope: 's', key: 'k', fence: 7 };
        return ask(`${server.url}/v1/operations/renew`, { headers: ADMIN, body });
      }),
  ],
  ['key-missing', 'no', () => job({})],
  ['key-invalid', 'no', () => job({ 'idempotency-key': 'odd' })],
  ['', 'no', () => job({ 'idempotency-key': newKey() }, { type: 'none' })],
  ['scope-unknown', 'no', () => through(gateway, '/x', { ...key(), cookie: 'session=1' })],
  ['upstream-reset', 'unknown', () => through(gateway, '/reset')],
  ['upstream-timeout', 'unknown', () => through(gateway, '/slow?delay=3000')],
  ['upstream-refused', 'no', () => through(deadEnd, '/x')],
  ['key-invalid', 'no', () => through(gateway, '/x', { 'idempotency-key': 'no key' })],
  ['invalid-request', 'no', () => through(gateway, '/%zz')],
];

/** What the client may conclude. `refused` and `no` are the only ones that may lead to a new key, or to an undo. */
const CONCLUSIONS: Record<string, readonly string[]> = {
  yes: ['done'],
  no: ['refused', 'transient no', 'unauthorized'],
  unknown: ['in_progress', 'in_doubt', 'transient unknown'],
};

it.each(REFUSED)(
  '[E16] the refusal "%s" of a real process says %s, and the client concludes the same',
  async (name, happened, provoke) => {
    const told = await provoke();
    const body = JSON.parse(told.text) as Record<string, unknown>;
    expect(body).toMatchObject({
      happened,
      retry: expect.stringMatching(/^(same_key|new_key|never)$/),
    });
    if (name !== '') expect(body.type).toBe(`https://onceward.dev/problems/${name}`);
    const verdict = judgeAnswer(told, Date.now());
    const ran = 'ran' in verdict ? ` ${verdict.ran}` : '';
    expect(CONCLUSIONS[happened]).toContain(verdict.kind + ran);
  },
);
