import type { OperationId } from 'onceward';
import { encodeRecord } from '../../../packages/onceward/src/engine/record/record-codec.ts';

/** One operation's life as a store sees it: a claim and a commit, both durable before they are acknowledged. */
export interface CycleTarget {
  readonly name: string;
  cycle(id: OperationId): Promise<void>;
  close(): Promise<void>;
}

const NOW = Date.UTC(2030, 0, 1);
const base = {
  fingerprint: 'n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg',
  owner: 'Q2h8K0m1Z3p4R5s6T7u8vw.1',
  attempt: 1,
  createdAt: NOW,
  steps: [],
};
const value = new Uint8Array(500).map((_, i) => (i * 31) & 255);

/** What the engine writes, with an outcome of 500 bytes. */
export function recordsOf(id: OperationId): { claim: Uint8Array; commit: Uint8Array } {
  return {
    claim: encodeRecord(id, {
      ...base,
      state: 'pending',
      fence: 0,
      leaseUntil: NOW + 60_000,
      onLapse: 'in_doubt',
      keepUntil: NOW + 360_000,
    }),
    commit: encodeRecord(id, {
      ...base,
      state: 'committed',
      fence: 1,
      outcome: { contentType: 'application/json', codec: 0, size: 500, bytes: value },
      settledAt: NOW,
      keepUntil: NOW + 300_000,
      resolution: null,
    }),
  };
}

/** All targets write the same bytes, made once: the codec is measured with the engine, not with the stores. */
export const SAMPLE = recordsOf({ scope: 'bench', key: 'sample' });
export const KEEP_UNTIL = NOW + 300_000;

/** Cycles a second with so many in flight, and the processor time of one. */
export async function measureCycles(
  target: CycleTarget,
  inFlight: number,
  ms: number,
): Promise<{ perSecond: number; cpuMicros: number }> {
  let done = 0;
  const began = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  const until = began + BigInt(ms) * 1_000_000n;
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (process.hrtime.bigint() < until) {
        await target.cycle(nextId());
        done += 1;
      }
    }),
  );
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  const used = process.cpuUsage(cpu);
  return { perSecond: done / seconds, cpuMicros: (used.user + used.system) / done };
}

let ids = 0;

export function nextId(): OperationId {
  ids += 1;
  return {
    scope: 'tenant-42/POST/v1/orders',
    key: `01J9Z9W9J7P8CDQ8${ids.toString(36).padStart(10, '0')}`,
  };
}
