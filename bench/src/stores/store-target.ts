import type { RecordStore } from 'onceward';
import { type CycleTarget, SAMPLE } from '../engine/cycles.ts';

const RETENTION_MS = 300_000;

/** What the engine asks of a store for a new operation. */
export function storeTarget(name: string, store: RecordStore): CycleTarget {
  return {
    name,
    async cycle(id) {
      const dueAt = Date.now() + RETENTION_MS;
      const claim = await store.swap(id, null, { bytes: SAMPLE.claim, state: 'pending', dueAt });
      if (!claim.won) throw new Error(`a new key was taken: ${id.key}`);
      const settled = { bytes: SAMPLE.commit, state: 'committed', dueAt } as const;
      const settle = await store.swap(id, claim.revision, settled);
      if (!settle.won) throw new Error(`a claim was lost: ${id.key}`);
    },
    close: () => store.close(),
  };
}
