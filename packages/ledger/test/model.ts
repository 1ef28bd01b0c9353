import type { ModelRequest, ModelTransaction, ModelWrite } from './model-request.ts';

/** What a ledger should do, in plain maps and without a thought for speed, disks or proofs. */
export interface ModelSettings {
  readonly keyTtlMs: number;
  readonly cleanupMs: number;
  readonly clientTtlMs: number;
  readonly evictionInterval: number;
  readonly rollsBack: boolean;
}

type Requests = readonly ModelRequest[];

interface Client {
  last: bigint;
  seen: number;
  /** Oldest first. */
  receipts: {
    readonly key: number;
    readonly payload: string;
    readonly sequence: bigint;
    readonly at: number;
  }[];
}

const REUSED = 'IDEMPOTENCY_KEY_REUSED';

export class Model {
  readonly balances: bigint[];
  readonly clients = new Map<string, Client>();
  readonly entities = new Map<string, { value: string; expires: number | undefined }>();
  /** When each key was last used for a transaction that counted. */
  readonly keys = new Map<string, number>();
  #settings: ModelSettings;
  #near = new Map<string, { readonly payload: string; readonly sequence: bigint }>();
  height: number;
  /** Of the last entry: the clock's, but for that it never falls. */
  time: number;

  constructor(settings: ModelSettings, accounts: number, tip: { height: number; at: number }) {
    this.#settings = settings;
    this.balances = Array.from({ length: accounts }, () => 0n);
    this.height = tip.height;
    this.time = tip.at;
  }

  /** A new life: one more entry in the log, and nothing in memory. */
  restart(now: number): void {
    this.#near = new Map();
    this.#entryDone(Math.max(this.time, now));
  }

  change(now: number, settings: Partial<ModelSettings>): void {
    this.#settings = { ...this.#settings, ...settings };
    this.#entryDone(Math.max(this.time, now));
  }

  /** The answer to each of some concurrent requests. */
  round(clock: number, requests: Requests): string[] {
    const now = Math.max(this.time, clock);
    const answers: string[] = [];
    const transactions = this.#admitTransactions(requests, answers);
    const writes = this.#admitWrites(requests, answers);
    if (transactions.length > 0) this.#applyTransactions(now, requests, transactions, answers);
    for (const at of writes) answers[at] = this.#applyWrite(now, requests[at] as ModelWrite);
    if (writes.length > 0) this.#entryDone(now);
    this.#shareAnswers(requests, answers);
    return answers;
  }

  #admitTransactions(requests: Requests, answers: string[]): number[] {
    const inFlight = new Set<string>();
    const admitted: number[] = [];
    requests.forEach((request, at) => {
      if (request.kind !== 'transaction') return;
      const name = nameOf(request);
      if (inFlight.has(name)) answers[at] = 'DUPLICATE_IDEMPOTENCY_KEY in_flight';
      else admitted.push(at);
      inFlight.add(name);
    });
    return admitted;
  }

  #admitWrites(requests: Requests, answers: string[]): number[] {
    const running = new Map<string, string>();
    const admitted: number[] = [];
    requests.forEach((request, at) => {
      if (request.kind !== 'write') return;
      const name = `${clientOf(request)} ${request.key}`;
      const payload = payloadOf(request);
      const known = this.#near.get(name);
      const client = this.clients.get(clientOf(request));
      if (known !== undefined && known.sequence <= (client?.last ?? 0n)) {
        answers[at] = known.payload === payload ? `ok ${known.sequence}` : REUSED;
        return;
      }
      const other = running.get(name);
      const repeat = other === payload ? 'shared' : other && REUSED;
      answers[at] = repeat ?? this.#repeat(this.time, request) ?? 'run';
      if (answers[at] !== 'run') return;
      running.set(name, payload);
      admitted.push(at);
    });
    return admitted;
  }

  #applyTransactions(now: number, requests: Requests, batch: number[], answers: string[]): void {
    const { keyTtlMs, rollsBack } = this.#settings;
    const isUsed = (request: ModelTransaction) =>
      (this.keys.get(nameOf(request)) ?? Number.NEGATIVE_INFINITY) + keyTtlMs > now;
    const duplicates = batch.filter((at) => isUsed(requests[at] as ModelTransaction));
    for (const at of batch) {
      const request = requests[at] as ModelTransaction;
      if (duplicates.includes(at)) answers[at] = 'DUPLICATE_IDEMPOTENCY_KEY database';
      else if (rollsBack && duplicates.length > 0) answers[at] = 'BATCH_ROLLED_BACK';
      else answers[at] = this.#applyTransaction(now, request);
    }
    this.#entryDone(now);
  }

  #applyTransaction(now: number, request: ModelTransaction): string {
    const { from, to, amount, mustStayPositive } = request;
    this.keys.set(nameOf(request), now);
    const left = (this.balances[from] as bigint) - amount;
    if (mustStayPositive && left < 0n) return 'INSUFFICIENT_FUNDS';
    this.balances[from] = left;
    this.balances[to] = (this.balances[to] as bigint) + amount;
    return 'ok';
  }

  #applyWrite(now: number, request: ModelWrite): string {
    const repeat = this.#repeat(now, request);
    if (repeat !== undefined) return repeat;
    const name = clientOf(request);
    const client = this.clients.get(name) ?? { last: 0n, seen: 0, receipts: [] };
    const sequence = client.last + 1n;
    if ((request.sequence ?? sequence) !== sequence) return `SEQUENCE_GAP ${client.last}`;
    const before = new Map(this.entities);
    for (const { name: entity, value, onlyIfNew, livesMs } of request.entities) {
      const key = `${request.vault} ${entity}`;
      if (onlyIfNew && this.entity(key, now) !== undefined) {
        this.entities.clear();
        for (const [old, kept] of before) this.entities.set(old, kept);
        return 'KEY_EXISTS';
      }
      this.entities.set(key, { value, expires: livesMs && now + livesMs });
    }
    const payload = payloadOf(request);
    const receipts = [...client.receipts, { key: request.key, payload, sequence, at: now }];
    this.clients.set(name, { last: sequence, seen: now, receipts });
    this.#near.set(`${name} ${request.key}`, { payload, sequence });
    return `ok ${sequence}`;
  }

  entity(key: string, now: number): string | undefined {
    const entity = this.entities.get(key);
    return entity === undefined || (entity.expires ?? now + 1) <= now ? undefined : entity.value;
  }

  #repeat(now: number, request: ModelWrite): string | undefined {
    const client = this.clients.get(clientOf(request));
    if (client === undefined) return undefined;
    const { clientTtlMs } = this.#settings;
    const receipt = client.receipts.findLast(({ key }) => key === request.key);
    if (receipt !== undefined && now - receipt.at <= clientTtlMs) {
      const isSame = receipt.payload === payloadOf(request);
      return isSame ? `ALREADY_COMMITTED ${receipt.sequence}` : REUSED;
    }
    const { sequence } = request;
    return sequence !== undefined && sequence <= client.last
      ? `ALREADY_COMMITTED ${sequence}`
      : undefined;
  }

  /** Those that arrived while an equal one ran get its answer. */
  #shareAnswers(requests: Requests, answers: string[]): void {
    answers.forEach((answer, at) => {
      if (answer !== 'shared') return;
      const own = requests[at] as ModelWrite;
      const first = requests.findIndex(
        (other) =>
          other.kind === 'write' && clientOf(other) === clientOf(own) && other.key === own.key,
      );
      answers[at] = answers[first] as string;
    });
  }

  /** A whole interval at a time: shows where the window becomes longer than it was. */
  #forgetKeys(): void {
    const { keyTtlMs, cleanupMs } = this.#settings;
    for (const [name, at] of this.keys) {
      const until = (Math.floor(at / cleanupMs) + 1) * cleanupMs;
      if (until + keyTtlMs <= this.time) this.keys.delete(name);
    }
  }

  #entryDone(now: number): void {
    this.height += 1;
    this.time = now;
    this.#forgetKeys();
    if (this.height % this.#settings.evictionInterval !== 0) return;
    for (const [name, { seen }] of this.clients) {
      if (now - seen > this.#settings.clientTtlMs) this.clients.delete(name);
    }
  }
}

function nameOf({ credential, key }: ModelTransaction): string {
  return `${credential} ${key}`;
}

export function clientOf({ vault, client }: ModelWrite): string {
  return `${vault} ${client}`;
}

function payloadOf({ entities }: ModelWrite): string {
  return JSON.stringify(entities);
}
