import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { StoreError } from '../../engine/errors.ts';
import type { OperationId, Revision } from '../../engine/record.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { Fault } from '../fault-proxy.ts';
import { readPatiently, recover } from './store-fault-laws.ts';
import type { FaultyStore } from './store-fault-suite.ts';
import { record } from './store-probe.ts';

const STORM_MS: DurationMs = 5_000;
const WORKERS = 8;
const KEYS = 6;

/** Every answer that callers got during the storm, for one record. */
interface Log {
  readonly id: OperationId;
  /** How often a swap that expected this revision was acknowledged. */
  readonly met: Map<Revision, number>;
  claims: number;
  /** Forgettings that happened or may have happened. */
  forgettings: number;
  readonly issued: Revision[];
  /** Texts of writes that were said not to have taken effect. */
  readonly refused: Set<string>;
  readonly seen: Set<string>;
}

/**
 * Several callers change a few records while the connection suffers one fault after the other. Afterwards, no
 * revision may have been replaced twice, no write that was called undone may have been seen, and no revision may have
 * been given out twice.
 */
export async function stormKeepsLaws(faulty: FaultyStore): Promise<void> {
  const { store, proxy } = faulty;
  const logs = Array.from({ length: KEYS }, (_, key) => newLog(`storm ${key}`));
  let over = false;
  const workers = Array.from({ length: WORKERS }, async (_, worker) => {
    for (let turn = 0; !over; turn += 1) {
      await oneTurn(store, logs[(worker + turn) % KEYS] as Log, `${worker}.${turn}`);
      await sleep(1);
    }
  });
  const endsAt = performance.now() + STORM_MS;
  for (let at = 0; performance.now() < endsAt; at += 1) {
    const fault = FAULTS[at % FAULTS.length];
    if (fault === 'reset') proxy.reset();
    else if (fault === 'half_open') proxy.halfOpen();
    else proxy.set(at % 2 === 0 ? { toClient: fault as Fault } : { toServer: fault as Fault });
    await sleep(120);
    proxy.set({});
    await sleep(60);
  }
  over = true;
  await Promise.all(workers);
  await recover(store);
  for (const log of logs) await assertLawful(store, log);
  expect(logs.flatMap((log) => log.issued).length).toBeGreaterThan(KEYS);
}

const FAULTS: readonly (Fault | 'reset' | 'half_open')[] = [
  { kind: 'cut', afterBytes: 40 },
  'reset',
  { kind: 'delay', ms: 30 },
  { kind: 'hold' },
  { kind: 'blackhole' },
  'half_open',
  { kind: 'drip', bytes: 9, everyMs: 2 },
];

function newLog(key: string): Log {
  return {
    id: { scope: 'storm', key },
    met: new Map(),
    claims: 0,
    forgettings: 0,
    issued: [],
    refused: new Set(),
    seen: new Set(),
  };
}

async function oneTurn(store: RecordStore, log: Log, name: string): Promise<void> {
  let expected: Revision | null;
  try {
    const current = await store.read(log.id);
    expected = current?.revision ?? null;
    if (current) log.seen.add(new TextDecoder().decode(current.bytes));
  } catch (error) {
    return mustBeCoded(error);
  }
  const forgets = expected !== null && name.endsWith('3');
  try {
    const result = await store.swap(log.id, expected, forgets ? null : record(name));
    if (!result.won) {
      if (result.current) log.seen.add(new TextDecoder().decode(result.current.bytes));
      return;
    }
    log.issued.push(result.revision);
    if (expected === null) log.claims += 1;
    else log.met.set(expected, (log.met.get(expected) ?? 0) + 1);
    if (forgets) log.forgettings += 1;
  } catch (error) {
    mustBeCoded(error);
    if ((error as StoreError).applied === 'no') log.refused.add(name);
    else if (forgets) log.forgettings += 1;
  }
}

function mustBeCoded(error: unknown): void {
  if (!(error instanceof StoreError)) throw error;
}

async function assertLawful(store: RecordStore, log: Log): Promise<void> {
  const current = await readPatiently(store, log.id);
  if (current) log.seen.add(new TextDecoder().decode(current.bytes));
  expect([...log.met].filter(([, times]) => times > 1)).toEqual([]);
  expect(log.claims).toBeLessThanOrEqual(log.forgettings + 1);
  expect(new Set(log.issued).size).toBe(log.issued.length);
  expect([...log.seen].filter((text) => log.refused.has(text))).toEqual([]);
  if (current && log.forgettings === 0) {
    expect(current.revision).toBeGreaterThanOrEqual(Math.max(0, ...log.issued));
  }
}
