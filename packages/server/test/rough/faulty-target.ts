import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Random } from '../random.ts';
import { byItsBytes, type Operation } from './operation.ts';
import type { Target } from './target.ts';
import type { Told } from './told.ts';

export const FAULTS = ['none', 'runs twice', 'goes silent', 'keeps room', 'dies', 'logs'] as const;
export type Fault = (typeof FAULTS)[number];

interface Kept {
  readonly answer: string;
  times: number;
}

/** A small server that does what the real one promises, except for one planted fault. */
export class FaultyTarget implements Target {
  readonly maxBytes = 1_000;
  readonly trapPort = 9;
  readonly settlesToNought = /^onceward_buffer_bytes/;
  readonly ownSockets = 0;
  readonly #fault: Fault;
  readonly #server: Server;
  readonly #kept = new Map<string, Kept>();
  #requests = 0;
  #alive = true;
  url = '';

  constructor(fault: Fault) {
    this.#fault = fault;
    this.#server = createServer((request, response) => {
      request.on('error', () => {});
      request.resume().on('end', () => this.#answer(request, response));
    });
  }

  get adminUrl(): string {
    return this.url;
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  isAlive(): boolean {
    return this.#alive;
  }

  faultsInLog(): string[] {
    return this.#fault === 'logs' ? ['the log says that something failed'] : [];
  }

  async drain(): Promise<string[]> {
    return [];
  }

  async kill(): Promise<void> {}

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  keyed(random: Random, name: string): Operation {
    const body = 'k'.repeat(random.below(100));
    return { ...this.plain(random, name), keyed: true, method: 'POST', body, ends: [201] };
  }

  plain(_random: Random, name: string): Operation {
    const nothing = { headers: [], body: '', ends: [], runOf: byItsBytes, toldOnce: false };
    return { name, keyed: false, method: 'GET', target: '/', ...nothing };
  }

  witness(name: string): Operation {
    const plain = { headers: [], body: 'w', ends: [201], runOf: byItsBytes, toldOnce: false };
    return { name, keyed: true, method: 'POST', target: '/?delay=0', ...plain };
  }

  async hasBegun(): Promise<boolean> {
    return true;
  }

  async mark(): Promise<void> {}

  async judge(told: Told): Promise<string[]> {
    return told.keyed.flatMap(({ name }) => {
      const times = this.#kept.get(name)?.times ?? 0;
      return times > 1 ? [`${name} had ${times} effects`] : [];
    });
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.#requests += 1;
    if (request.url === '/metrics') {
      response.end(`onceward_buffer_bytes ${this.#fault === 'keeps room' ? 7 : 0}\n`);
      return;
    }
    if (this.#fault === 'goes silent' && this.#requests > 5) return;
    if (this.#fault === 'dies' && this.#requests > 5) this.#alive = false;
    const key = request.headers['idempotency-key'];
    if (typeof key !== 'string') {
      response.end('plain');
      return;
    }
    const known = this.#kept.get(key);
    if (known !== undefined && this.#fault === 'runs twice') known.times += 1;
    const kept = known ?? { answer: `run for ${key}`, times: 1 };
    this.#kept.set(key, kept);
    response.writeHead(201, { 'content-length': Buffer.byteLength(kept.answer) });
    response.end(kept.answer);
  }
}
