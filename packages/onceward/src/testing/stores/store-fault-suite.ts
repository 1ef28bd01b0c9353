import { describe, it } from 'vitest';
import type { RecordStore } from '../../engine/record-store.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { FaultProxy } from '../fault-proxy.ts';
import * as laws from './store-fault-laws.ts';
import { stormKeepsLaws } from './store-fault-storm.ts';

/** A store whose only way to its server leads through a fault proxy. */
export interface FaultyStore {
  readonly store: RecordStore;
  readonly proxy: FaultProxy;
  readonly server: FaultyServer;
  close(): Promise<void>;
}

export interface FaultyServer {
  /** Freezes it: bytes are accepted, nothing is answered. */
  pause(): void;
  resume(): void;
  /** kill -9. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

export interface StoreFaultSuiteOptions {
  readonly name: string;
  /** The store's setting for how long a call may take. */
  readonly timeoutMs: DurationMs;
  /** Opens a store that holds nothing. Called for each law. */
  open(): Promise<FaultyStore>;
}

const LAWS = {
  '[E12] a frozen server is refused in time, and what was refused does not happen on thaw':
    laws.frozenServer,
  '[E12] a reply cut in the middle leaves a result that a read settles': laws.cutReply,
  '[E12] connections that are reset are opened again': laws.resetConnections,
  '[E12] a half-open connection is noticed and replaced': laws.halfOpenConnection,
  '[E12] requests and replies that vanish are refused in time': laws.blackhole,
  '[E12] a server that drips is either slow or refused, never wrong': laws.drippingServer,
  '[E12] a killed server is refused at once and used again when it is back': laws.killedServer,
  '[E5] in a storm of faults no expectation is met twice and no refusal takes effect':
    stormKeepsLaws,
} as const;

/** The laws of `RecordStore` that speak of a store in trouble, on its real server. */
export function storeFaultSuite(options: StoreFaultSuiteOptions): void {
  describe(`store faults: ${options.name}`, () => {
    for (const [title, check] of Object.entries(LAWS)) {
      it(title, { timeout: 90_000 }, async () => {
        const faulty = await options.open();
        try {
          await check(faulty, options.timeoutMs);
        } finally {
          await faulty.close();
        }
      });
    }
  });
}
