import type { Ledger } from '@onceward/ledger';
import type { Engine, StoreCount } from 'onceward';
import { Counter, collectDefaultMetrics, Registry } from 'prom-client';
import { countEvents } from './event-counts.ts';
import { type Instruments, instrumentsOf } from './instruments.ts';
import { countLedger } from './ledger-counts.ts';

const REQUEST_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const STATES = ['pending', 'committed', 'rejected', 'in_doubt'] as const;

export type UpstreamFault = 'refused' | 'reset' | 'timeout';

/** What a gateway holds at present. */
export interface GatewayGauges {
  requestBytes(): number;
  responseBytes(): number;
  waiting(): number;
  upgrades(): number;
}

/** Everything that is counted. docs/reference/metrics.md explains each name, and a test compares the two. */
export class Metrics {
  readonly registry = new Registry();
  readonly #make = instrumentsOf(this.registry);

  readonly countEvent = countEvents(this.#make);

  readonly #streams = this.#make.counter(
    'streaming_skipped_total',
    'Streamed answers that were not kept.',
  );
  readonly #tooLarge = this.#make.counter(
    'body_too_large_total',
    'Answers too long to be kept, and requests too long to be read.',
    ['side', ['request', 'response']],
  );
  readonly #upstream = this.#make.counter('upstream_errors_total', 'Failures of the upstream.', [
    'kind',
    ['refused', 'reset', 'timeout'],
  ]);
  #gateway: GatewayGauges = {
    requestBytes: () => 0,
    responseBytes: () => 0,
    waiting: () => 0,
    upgrades: () => 0,
  };
  readonly #requests = this.#make.histogram(
    'http_request_seconds',
    'Requests by route and status.',
    REQUEST_BUCKETS,
    ['method', 'route', 'status'],
  );

  constructor() {
    collectDefaultMetrics({ register: this.registry });
    this.#make.gauge(
      'buffer_bytes',
      'Room that a gateway has given to bodies, in bytes.',
      ['side'],
      (self) => {
        self.set({ side: 'request' }, this.#gateway.requestBytes());
        self.set({ side: 'response' }, this.#gateway.responseBytes());
      },
    );
    this.#make.gauge('buffer_waiting', 'Bodies that wait for room in a gateway.', [], (self) => {
      self.set(this.#gateway.waiting());
    });
    this.#make.gauge(
      'open_upgrades',
      'Upgraded connections that a gateway carries.',
      [],
      (self) => {
        self.set(this.#gateway.upgrades());
      },
    );
  }

  /** Without a gateway these gauges stay at zero. */
  watchGateway(gateway: GatewayGauges): void {
    this.#gateway = gateway;
  }

  /** Adds what is asked for only when it is scraped. */
  watch(engine: Engine): void {
    watchMemory(this.#make, this.registry, engine);
    watchStore(this.#make, engine);
  }

  watchLedger(ledger: Ledger): void {
    countLedger(this.#make, this.registry, ledger);
  }

  countStreamingSkipped(): void {
    this.#streams.inc();
  }

  countTooLarge(side: 'request' | 'response'): void {
    this.#tooLarge.inc({ side });
  }

  countUpstreamFault(kind: UpstreamFault): void {
    this.#upstream.inc({ kind });
  }

  timeRequest(method: string, route: string, status: number, seconds: number): void {
    this.#requests.observe({ method, route, status: String(status) }, seconds);
  }
}

function watchMemory(make: Instruments, registry: Registry, engine: Engine): void {
  make.gauge('in_flight', 'Operations that this process is running.', [], (self) =>
    self.set(engine.near.running),
  );
  make.gauge('near_entries', 'Settled answers held in memory.', [], (self) =>
    self.set(engine.near.answers),
  );
  make.gauge('near_bytes', 'Bytes of settled answers held in memory.', [], (self) =>
    self.set(engine.near.bytes),
  );
  new Counter({
    name: 'onceward_evictions_total',
    help: 'Settled answers that left memory before their time.',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(engine.near.evictions);
    },
  });
}

function watchStore(make: Instruments, engine: Engine): void {
  const up = 'Whether the store could be read and written when this was scraped.';
  make.gauge('store_up', up, [], async (self) => {
    const isUp = await engine.ping().then(
      () => 1,
      () => 0,
    );
    self.set(isUp);
  });
  // Two gauges and one question to the store: both are collected at the same time.
  let asked: Promise<StoreCount | null> | null = null;
  const ask = () => {
    asked ??= engine.count().then(
      (count) => {
        asked = null;
        return count;
      },
      () => {
        asked = null;
        return null;
      },
    );
    return asked;
  };
  const doubtful = 'Operations whose outcome is unknown.';
  make.gauge('in_doubt', doubtful, [], async (self) => {
    const count = await ask();
    // No number is better than an old one.
    if (count === null) self.remove();
    else self.set(count.in_doubt);
  });
  make.gauge('records', 'Records in the store, by state.', ['state'], async (self) => {
    const count = await ask();
    self.reset();
    if (count === null) return;
    for (const state of STATES) self.set({ state }, count[state]);
  });
}
