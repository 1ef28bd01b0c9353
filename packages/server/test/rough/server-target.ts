import { transactionText } from '../ledger-client.ts';
import { Random } from '../random.ts';
import { ADMIN, CREDENTIAL, temporaryFolder } from '../running-program.ts';
import type { Answer } from './answer.ts';
import { KEPT } from './gateway-target.ts';
import { byItsBytes, type Operation } from './operation.ts';
import { look } from './raw-client.ts';
import { Lives, type Target, WITNESS_MS } from './target.ts';
import type { Told } from './told.ts';

const MAX_BYTES = 65_536;

/** What the program has really done so far, for the kinds of operations that can be counted. */
interface Counts {
  readonly orders: number;
  readonly moved: number;
}

/** The server with all that it serves: the demo's orders, jobs, the operations API and the ledger. */
export class ServerTarget implements Target {
  readonly maxBytes = MAX_BYTES;
  readonly settlesToNought = /^onceward_(in_flight|ledger_in_flight)/;
  readonly trapPort = 9;
  readonly ownSockets = 0;
  readonly #folder = temporaryFolder();
  readonly #lives: Lives;
  #accounts: readonly [string, string] | null = null;
  #before: Counts = { orders: 0, moved: 0 };
  #tenants = 0;
  url = '';

  constructor() {
    this.#lives = new Lives(['serve'], {
      PORT: '0',
      LEDGER_GRPC_PORT: '0',
      ONCEWARD_DATA: this.#folder.path,
      ONCEWARD_MAX_REQUEST_BYTES: String(MAX_BYTES),
      ...KEPT,
      ...CREDENTIAL,
    });
  }

  get adminUrl(): string {
    return this.url;
  }

  async start(): Promise<void> {
    this.url = await (await this.#lives.start()).ready();
    this.#accounts ??= [await this.#openAccount(), await this.#openAccount()];
  }

  isAlive(): boolean {
    return this.#lives.isAlive();
  }

  faultsInLog(): string[] {
    return this.#lives.faultsInLog();
  }

  drain(): Promise<string[]> {
    return this.#lives.drain();
  }

  kill(): Promise<void> {
    return this.#lives.kill();
  }

  async close(): Promise<void> {
    await this.kill();
    this.#folder.remove();
  }

  keyed(random: Random, name: string): Operation {
    const draw = random.below(10);
    if (draw < 5) return order(random, name);
    if (draw < 7) return job(random, name, this.#tenant);
    if (draw < 8) return reservation(name);
    const [from, to] = this.#accounts ?? ['', ''];
    return transfer(name, transactionText({ from, to, amount: '1' }));
  }

  plain(random: Random, name: string): Operation {
    const target = random.pick(['/healthz', '/demo/v1/effects', '/openapi.json', '/nowhere']);
    const base = { ...NOTHING_KEPT, name, keyed: false, target, headers: [] };
    return { ...base, method: 'GET', body: '', ends: [] };
  }

  witness(name: string): Operation {
    const target = `/demo/v1/orders?delay_ms=${WITNESS_MS}`;
    return { ...order(new Random(1), name), target, ends: [201] };
  }

  async hasBegun(operations: readonly Operation[]): Promise<boolean> {
    const states = operations.map(({ name }) =>
      look(this.url, `/admin/idempotency/${scopeOf(name)}/${name}`, ADMIN),
    );
    return (await Promise.all(states)).every((state) => state !== null);
  }

  async mark(): Promise<void> {
    this.#before = await this.#count();
  }

  async judge(told: Told): Promise<string[]> {
    const now = await this.#count();
    const jobs = JSON.parse(
      (await look(this.url, '/jobs?limit=1000', { 'x-tenant': this.#tenant })) ?? '{"jobs":[]}',
    ) as { jobs: unknown[] };
    const complaints: string[] = [];
    const check = (what: string, path: string, happened: number) => {
      const asked = told.keyed.filter(({ target }) => target.startsWith(path));
      const done = asked.filter((operation) =>
        told.answers.get(operation)?.some((answer) => operation.runOf(answer) !== null),
      );
      if (happened > asked.length)
        complaints.push(`${asked.length} ${what}, done ${happened} times`);
      if (happened < done.length) complaints.push(`${done.length} ${what} told, ${happened} done`);
    };
    check('orders', '/demo/', now.orders - this.#before.orders);
    check('transfers', '/transaction', now.moved - this.#before.moved);
    check('jobs', '/jobs', jobs.jobs.length);
    this.#tenants += 1;
    return [...complaints, ...(await this.#commitClaims(told))];
  }

  get #tenant(): string {
    return `rough.${this.#tenants}`;
  }

  async #openAccount(): Promise<string> {
    const opened = await look(this.url, '/account', ADMIN, '{"category":"WALLET","asset":"USD"}');
    return (JSON.parse(opened ?? '{"id":""}') as { id: string }).id;
  }

  async #count(): Promise<Counts> {
    const effects = JSON.parse((await look(this.url, '/demo/v1/effects')) ?? '{"orders":-1}');
    const path = `/account/${this.#accounts?.[1]}`;
    const account = JSON.parse((await look(this.url, path, ADMIN)) ?? '{"balance":-1}');
    return {
      orders: (effects as { orders: number }).orders,
      moved: Number((account as { balance: string }).balance),
    };
  }

  /** A client that got a claim holds it: its fence settles it. */
  async #commitClaims(told: Told): Promise<string[]> {
    const complaints: string[] = [];
    for (const [operation, answers] of told.answers) {
      if (!operation.target.startsWith('/v1/')) continue;
      const fence = answers.map((answer) => fenceOf(answer)).find((found) => found !== null);
      if (fence === undefined) continue;
      const body = JSON.stringify({ scope: 'rough', key: operation.name, fence });
      const settled = await look(this.url, '/v1/operations/commit', ADMIN, body);
      if (settled === null) complaints.push(`${operation.name} was claimed and cannot be settled`);
    }
    return complaints;
  }
}

const JSON_BODY = ['Content-Type', 'application/json'] as const;
const OWN = Object.entries(ADMIN);
const NOTHING_KEPT = { runOf: byItsBytes, toldOnce: false } as const;

function order(random: Random, name: string): Operation {
  const knob = random.pick(['', '', '', '&bytes=9000', '&bytes=200000', '&stream=5']);
  const item = 'b'.repeat(1 + random.below(199));
  return {
    ...NOTHING_KEPT,
    name,
    keyed: true,
    method: 'POST',
    target: `/demo/v1/orders?delay_ms=${random.below(60)}${knob}`,
    headers: [JSON_BODY, ['X-Demo-User', userOf(name)]],
    body: JSON.stringify({ item, amount: random.below(1_000) }),
    ends: knob === '' || knob === '&bytes=9000' ? [201] : [],
  };
}

/** Few users: a scope may have as many keys as it likes. */
function userOf(name: string): string {
  return `user-${name.slice(-1)}`;
}

function scopeOf(name: string): string {
  return encodeURIComponent(`${userOf(name)}|POST /demo/v1/orders`);
}

function job(random: Random, name: string, tenant: string): Operation {
  return {
    name: `rough:${random.below(1_000_000)}:${hexOf(name)}`,
    keyed: true,
    method: 'POST',
    target: '/jobs',
    headers: [JSON_BODY, ['X-Tenant', tenant]],
    body: JSON.stringify({ type: 'echo', payload: { n: random.below(1_000) } }),
    ends: [202],
    runOf: (answer) => (answer.status === 202 ? (memberOf(answer, 'job_id') ?? null) : null),
    toldOnce: false,
  };
}

function transfer(name: string, body: string): Operation {
  return {
    name,
    keyed: true,
    method: 'POST',
    target: '/transaction',
    headers: [JSON_BODY, ...OWN],
    body,
    // The ledger answers a transaction once; a retry gets that it is a duplicate.
    ends: [],
    runOf: (answer) => (answer.status === 201 ? memberOf(answer, 'transaction_id') : null),
    toldOnce: true,
  };
}

function reservation(name: string): Operation {
  const wanted = { scope: 'rough', key: name, fingerprint: 'f', lease_ms: 60_000, wait_ms: 0 };
  return {
    name,
    keyed: true,
    method: 'POST',
    target: '/v1/operations/reserve',
    headers: [JSON_BODY, ...OWN],
    body: JSON.stringify(wanted),
    ends: [],
    runOf: (answer) => fenceOf(answer)?.toString() ?? null,
    toldOnce: true,
  };
}

function fenceOf(answer: Answer): number | null {
  if (answer.status !== 200 || memberOf(answer, 'decision') !== 'claimed') return null;
  return Number(memberOf(answer, 'fence'));
}

function memberOf({ body, whole }: Answer, name: string): string | null {
  if (!whole) return null;
  const value = (JSON.parse(body.toString()) as Record<string, unknown>)[name];
  return value === undefined || value === null ? null : String(value);
}

/** Sixteen hexadecimal digits that are another's for another name. */
function hexOf(name: string): string {
  return Buffer.from(name).toString('hex').padStart(16, '0').slice(-16);
}
