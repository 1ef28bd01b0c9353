import { StoreError } from '../../engine/errors.ts';
import type { OperationId } from '../../engine/record.ts';
import type { RecordStore, StoreTraits } from '../../engine/record-store.ts';

/** What may go wrong with one call. */
export type Trouble =
  /** Refused before it reached the store. */
  | 'down'
  /** Never answered; never applied. */
  | 'frozen'
  /** Applied, but the reply was lost. */
  | 'reply_lost'
  /** Not applied, and the outcome is unknown. */
  | 'request_lost';

export interface TroubledStore extends RecordStore {
  /** The fault of the next calls, until it is changed. */
  trouble: Trouble | null;
  /** As `trouble`, for calls of one verb only. */
  troubleWith: { readonly verb: 'read' | 'swap'; readonly trouble: Trouble } | null;
  /** Changes what is stored without its owner's knowledge. */
  overwrite(id: OperationId, bytes: Uint8Array): Promise<void>;
}

/** A real store behind a connection that misbehaves on request. */
export function troubledStore(store: RecordStore): TroubledStore {
  const meet = async <T>(verb: 'read' | 'swap', call: () => Promise<T>): Promise<T> => {
    const trouble =
      troubled.troubleWith?.verb === verb ? troubled.troubleWith.trouble : troubled.trouble;
    switch (trouble) {
      case null:
        return call();
      case 'frozen':
        return new Promise(() => {});
      case 'reply_lost':
        await call();
        throw lost('unknown');
      case 'request_lost':
        throw lost('unknown');
      case 'down':
        throw lost('no');
    }
  };
  const troubled: TroubledStore = {
    traits: store.traits,
    trouble: null,
    troubleWith: null,
    read: (id) => meet('read', () => store.read(id)),
    swap: (id, expected, next) => meet('swap', () => store.swap(id, expected, next)),
    scan: (query) => store.scan(query),
    count: () => store.count(),
    close: () => store.close(),
    async overwrite(id, bytes) {
      const current = await store.read(id);
      await store.swap(id, current?.revision ?? null, { bytes, state: 'committed', dueAt: null });
    },
  };
  return troubled;
}

function lost(applied: 'no' | 'unknown'): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', 'the connection is closed', { applied });
}

/** The same store, seen with other traits. */
export function withTraits(store: RecordStore, traits: Partial<StoreTraits>): RecordStore {
  return {
    traits: { ...store.traits, ...traits },
    read: (id) => store.read(id),
    swap: (id, expected, next) => store.swap(id, expected, next),
    scan: (query) => store.scan(query),
    count: () => store.count(),
    close: () => store.close(),
  };
}

/** A store that several processes share: leases alone say who is alive, and waiters poll. */
export function sharedStore(store: RecordStore): RecordStore {
  return withTraits(store, { firstRevisionOfLife: null });
}
