/** A process of its own that sends arrivals to a store. Started by `arrivals.ts`. */
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { OncewardError } from '../../src/engine/errors.ts';
import type { OnLapse } from '../../src/engine/record.ts';
import { createOnceward } from '../../src/index.ts';
import { openStoreAt, type StoreAddress } from './store-address.ts';

export interface ArrivalOrder {
  readonly key: string;
  readonly count: number;
  readonly onLapse: OnLapse;
  readonly leaseMs: number;
  readonly waitMs: number;
  /** The effect adds a line to this file, so that its runs can be counted. */
  readonly effectFile: string;
  /** How long the effect takes after it has taken effect. */
  readonly holdMs: number;
}

/** What each arrival got: a value, or the code of an error. */
export interface ArrivalReport {
  readonly values: readonly string[];
  readonly codes: readonly string[];
}

const address = JSON.parse(process.argv[2] ?? '') as StoreAddress;
const store = await openStoreAt(address);
const engine = createOnceward({ store, sweep: false });

process.on('message', (order: ArrivalOrder) => {
  void arriveAll(order).then((report) => process.send?.(report));
});
process.on('disconnect', () => process.exit());
process.send?.('ready');

async function arriveAll(order: ArrivalOrder): Promise<ArrivalReport> {
  const values: string[] = [];
  const codes: string[] = [];
  await Promise.all(
    Array.from({ length: order.count }, async () => {
      try {
        values.push(await arrive(order));
      } catch (error) {
        codes.push(error instanceof OncewardError ? error.code : String(error));
      }
    }),
  );
  return { values, codes };
}

function arrive(order: ArrivalOrder): Promise<string> {
  const { key, onLapse, leaseMs, waitMs } = order;
  const storeTimeoutMs = address.timeoutMs;
  const policy = { leaseMs, waitMs, storeTimeoutMs, keepCommittedMs: 600_000 };
  const effect = { kind: 'external', onLapse } as const;
  return engine.once({ scope: 'arrivals', key, effect, policy }, async (attempt) => {
    appendFileSync(order.effectFile, `${process.pid} ${attempt.number} ${attempt.fence}\n`);
    await sleep(order.holdMs);
    return `attempt ${attempt.number} of process ${process.pid}`;
  });
}
