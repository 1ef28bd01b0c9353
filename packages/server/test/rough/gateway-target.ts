import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Random } from '../random.ts';
import { CREDENTIAL, temporaryFolder } from '../running-program.ts';
import { BAD, EffectUpstream, GOOD, NAME_HEADER } from './effect-upstream.ts';
import { byItsBytes, type Operation } from './operation.ts';
import { Lives, type Target, WITNESS_MS } from './target.ts';
import type { Told } from './told.ts';

const MAX_BYTES = 65_536;
/** Longer than any upstream of good will takes, on any machine; silent ones are waited for so long. */
const SILENCE_SECONDS = 1.5;

/** How the upstream's good answers begin. */
const ENDS = { declared: 201, chunked: 201, trickle: 200, empty: 204, notmodified: 304 } as const;

function endsOf(how: string): readonly number[] {
  return how in ENDS ? [ENDS[how as keyof typeof ENDS]] : [];
}

function drawAnswer(random: Random): string {
  if (random.chance(0.005)) return 'notmodified';
  return random.chance(0.85) ? random.pick(GOOD) : random.pick(BAD);
}

/** The gateway before an API that counts. */
export class GatewayTarget implements Target {
  readonly maxBytes = MAX_BYTES;
  readonly settlesToNought =
    /^onceward_(in_flight|buffer_bytes|buffer_waiting|open_upgrades|records\{state="pending"\})/;
  readonly #folder = temporaryFolder();
  readonly #upstream = new EffectUpstream();
  readonly #trap: Server;
  #lives: Lives | null = null;
  #trapped = 0;
  url = '';
  adminUrl = '';

  constructor() {
    this.#trap = createServer((_request, response) => {
      this.#trapped += 1;
      response.end('secret');
    });
  }

  get trapPort(): number {
    return (this.#trap.address() as AddressInfo).port;
  }

  get ownSockets(): number {
    return this.#upstream.connections;
  }

  async start(): Promise<void> {
    this.#lives ??= await this.#prepare();
    const program = await this.#lives.start();
    this.url = await program.ready();
    this.adminUrl = (await program.printed(/^onceward admin is on (\S+)$/m))[1] ?? '';
  }

  isAlive(): boolean {
    return this.#lives?.isAlive() === true;
  }

  faultsInLog(): string[] {
    return this.#lives?.faultsInLog() ?? [];
  }

  drain(): Promise<string[]> {
    return this.#lives?.drain() ?? Promise.resolve([]);
  }

  async kill(): Promise<void> {
    await this.#lives?.kill();
  }

  async close(): Promise<void> {
    await this.kill();
    await this.#upstream.close();
    this.#trap.closeAllConnections();
    await new Promise((resolve) => this.#trap.close(resolve));
    this.#folder.remove();
  }

  keyed(random: Random, name: string): Operation {
    const how = drawAnswer(random);
    const bytes = random.chance(0.2) ? random.below(60_000) : random.below(300);
    const body = JSON.stringify({
      item: 'a'.repeat(random.below(random.chance(0.1) ? 9_000 : 60)),
    });
    return {
      name,
      keyed: true,
      method: 'POST',
      target: `/orders?do=${how}&delay=${random.below(60)}&bytes=${bytes}`,
      headers: [
        ['Content-Type', 'application/json'],
        ['Authorization', `Bearer ${name}`],
        [NAME_HEADER, name],
      ],
      body,
      ends: endsOf(how),
      runOf: byItsBytes,
      toldOnce: false,
    };
  }

  plain(random: Random, name: string): Operation {
    const method = random.pick(['GET', 'POST'] as const);
    const how = drawAnswer(random);
    return {
      name,
      keyed: false,
      method,
      target: `/orders?do=${how}&delay=${random.below(40)}&bytes=${random.below(300)}`,
      headers: [[NAME_HEADER, name]],
      body: method === 'GET' ? '' : 'p'.repeat(random.below(20_000)),
      ends: endsOf(how),
      runOf: byItsBytes,
      toldOnce: false,
    };
  }

  witness(name: string): Operation {
    const how = `/orders?do=declared&delay=${WITNESS_MS}`;
    return { ...this.keyed(new Random(1), name), target: how, ends: [201] };
  }

  async hasBegun(operations: readonly Operation[]): Promise<boolean> {
    return operations.every(({ name }) => this.#upstream.effects.has(name));
  }

  async mark(): Promise<void> {
    this.#upstream.effects.clear();
    this.#trapped = 0;
  }

  async judge(told: Told): Promise<string[]> {
    const complaints: string[] = [];
    for (const operation of told.keyed) {
      const effects = this.#upstream.effects.get(operation.name) ?? [];
      if (effects.length > 1) {
        complaints.push(`${operation.name} had ${effects.length} effects at the upstream`);
      }
      if (effects.some(({ body }) => body !== operation.body)) {
        const lengths = effects.map(({ body }) => body.length).join(', ');
        const own = operation.body.length;
        complaints.push(`${operation.name} reached the upstream with ${lengths} bytes of ${own}`);
      }
    }
    if (this.#trapped > 0) complaints.push('a request was led to another server than the upstream');
    return complaints;
  }

  async #prepare(): Promise<Lives> {
    const upstream = await this.#upstream.listen();
    await new Promise<void>((resolve) => this.#trap.listen(0, '127.0.0.1', resolve));
    return new Lives(['gateway', '--upstream', upstream], {
      PORT: '0',
      ONCEWARD_ADMIN_PORT: '0',
      ONCEWARD_DATA: this.#folder.path,
      ONCEWARD_UPSTREAM_TIMEOUT_SECONDS: String(SILENCE_SECONDS),
      ONCEWARD_MAX_REQUEST_BYTES: String(MAX_BYTES),
      ONCEWARD_BUFFER_BYTES: String(64 * MAX_BYTES),
      ...KEPT,
      ...CREDENTIAL,
    });
  }
}

/** Small enough for rough traffic to come upon the limits. */
export const KEPT = {
  IDEMPOTENCY_MAX_BODY_BYTES: String(MAX_BYTES),
  IDEMPOTENCY_MAX_ENTRIES: '2000',
  IDEMPOTENCY_PENDING_WAIT_TIMEOUT: '3',
  IDEMPOTENCY_PENDING_TTL_SECONDS: '5',
  IDEMPOTENCY_COMMITTED_TTL_SECONDS: '300',
  IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS: '1',
};
