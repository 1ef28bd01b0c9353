import {
  type Change,
  type Entry,
  meetsExpectation,
  type OutboxStorage,
  type RangedEntry,
} from './outbox-storage.ts';

const STORE = 'entries';

/**
 * Keeps an outbox in the browser's own database, where every tab of the origin and its service worker see it.
 * Writes ask for strict durability: the browser answers after the data is on disk.
 */
export function indexedDbStorage(name = 'onceward-outbox'): OutboxStorage {
  let opened: Promise<IDBDatabase> | null = null;

  /** Opened again if the browser closed it, as it does when the user clears the site's data. */
  const database = (): Promise<IDBDatabase> => {
    opened ??= open(name, () => {
      opened = null;
    });
    return opened;
  };
  const reading = async () => (await database()).transaction(STORE, 'readonly').objectStore(STORE);

  return {
    async read(keys) {
      const store = await reading();
      return Promise.all(keys.map((key) => answer<Entry | undefined>(store.get(key))));
    },

    async range({ prefix, after, limit }) {
      const store = await reading();
      const from = after !== undefined && after > prefix ? after : prefix;
      const span = IDBKeyRange.bound(from, `${prefix}\uffff`, from === after, true);
      const keys = answer(store.getAllKeys(span, limit));
      const entries = await answer<Entry[]>(store.getAll(span, limit));
      return (await keys).map((key, i) => ({ key, entry: entries[i] }) as RangedEntry);
    },

    async count(prefix) {
      const store = await reading();
      return answer(store.count(IDBKeyRange.bound(prefix, `${prefix}\uffff`)));
    },

    async swap(changes) {
      return swap(await database(), changes);
    },

    async close() {
      const closing = opened;
      opened = null;
      (await closing?.catch(() => null))?.close();
    },
  };
}

async function open(name: string, onLost: () => void): Promise<IDBDatabase> {
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  try {
    const database = await answer(request);
    database.onclose = onLost;
    // Another tab wants to delete or upgrade the database; holding on would block it for ever.
    database.onversionchange = () => {
      database.close();
      onLost();
    };
    return database;
  } catch (error) {
    onLost();
    throw error;
  }
}

/**
 * Reads and writes in one transaction, so that nothing comes between the check and the change. The writes do not
 * wait for the reads, which saves a round trip: if one finds another version than expected, the transaction aborts.
 */
function swap(database: IDBDatabase, changes: readonly Change[]): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(STORE, 'readwrite', { durability: 'strict' });
    const store = transaction.objectStore(STORE);
    let unmet = false;
    transaction.oncomplete = () => resolve(true);
    transaction.onabort = () => (unmet ? resolve(false) : reject(transaction.error));
    for (const change of changes) {
      if (change.expected === undefined) continue;
      const request = store.get(change.key);
      request.onsuccess = () => {
        if (unmet || meetsExpectation(request.result as Entry | undefined, change)) return;
        unmet = true;
        transaction.abort();
      };
    }
    try {
      for (const { key, next } of changes) {
        if (next === null) store.delete(key);
        else store.put(next, key);
      }
    } catch (error) {
      // One that cannot be stored at all; without this, those before it would be.
      reject(error);
      transaction.abort();
    }
  });
}

function answer<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
