import { nodePlatform } from '../runtime/node-platform.ts';
import { memoryStore } from '../stores/memory/index.ts';
import { manualWorld } from '../testing/manual-world.ts';
import { Engine } from './engine.ts';
import type { AuditLine, EngineEvent } from './events.ts';
import type { Attempt, Operation, Settlement } from './operation.ts';
import { profiles } from './profiles.ts';
import type { RecordStore } from './record-store.ts';

/** What the engine's tests begin with: an operation, a world that waits to be told, and everything on record. */

export const id = { scope: 'tenant-1', key: 'key-1' };
export const operation: Operation = {
  id,
  fingerprint: 'f',
  effect: { kind: 'external', onLapse: 'in_doubt' },
  policy: profiles.http,
};
export const repeatable: Operation = {
  ...operation,
  effect: { kind: 'external', onLapse: 'take_over' },
};
export const LEASE = profiles.http.leaseMs;

export function committed(text: string): Settlement {
  return { as: 'committed', outcome: { contentType: 'text', bytes: Buffer.from(text) } };
}

export function setUp(store: RecordStore = memoryStore(), world = manualWorld()) {
  const events: EngineEvent[] = [];
  const audit: AuditLine[] = [];
  const engine = new Engine({
    store,
    world,
    platform: nodePlatform(),
    sweep: false,
    observe: (event) => void events.push(event),
    audit: async (line) => void audit.push(line),
  });
  const types = () => events.map(({ type }) => type);
  return { engine, world, store, events, types, audit };
}

/** An effect that runs until it is told how to end. */
export function heldEffect() {
  const attempts: Attempt[] = [];
  const ends: ((settlement: Settlement | Error) => void)[] = [];
  const effect = (attempt: Attempt) =>
    new Promise<Settlement>((resolve, reject) => {
      attempts.push(attempt);
      ends.push((end) => (end instanceof Error ? reject(end) : resolve(end)));
    });
  return { effect, attempts, end: (index: number, by: Settlement | Error) => ends[index]!(by) };
}
