import { ClientError } from '../client-error.ts';
import { SortedIndex } from './memory.ts';
import type { Change, OutboxStorage } from './outbox-storage.ts';

/** A place that keeps one text, such as an entry of React Native's AsyncStorage. */
export interface SnapshotPlace {
  load(): Promise<string | null>;
  /** Resolves when the text would survive the end of the app. One that fails or is cut short leaves the last text. */
  save(text: string): Promise<void>;
}

/**
 * Keeps an outbox as one text that is written whole at every change: for platforms that offer no more, and for
 * queues of up to some hundred operations. Only one app may use the place.
 */
export async function openSnapshotStorage(place: SnapshotPlace): Promise<OutboxStorage> {
  const index = new SortedIndex();
  const kept = await place.load();
  try {
    const entries = Object.entries(JSON.parse(kept ?? '{}') as Record<string, string>);
    for (const [key, text] of entries) {
      if (typeof text !== 'string') throw new TypeError(`${key} is no text`);
      index.apply({ key, next: JSON.parse(text) });
    }
  } catch (cause) {
    const message = 'what is saved is no outbox, or was cut off; nothing was changed';
    throw new ClientError('STORAGE_FAILED', message, { cause });
  }
  let last: Promise<unknown> = Promise.resolve();

  const swap = async (changes: readonly Change[]): Promise<boolean> => {
    if (!index.agrees(changes)) return false;
    const next = new Map(index.entries());
    for (const change of changes) {
      if (change.next === null) next.delete(change.key);
      else next.set(change.key, JSON.stringify(change.next));
    }
    await place.save(JSON.stringify(Object.fromEntries(next)));
    for (const change of changes) index.apply(change);
    return true;
  };

  return {
    read: async (keys) => keys.map((key) => index.get(key)),
    range: async (query) => index.range(query),
    count: async (prefix) => index.count(prefix),
    swap(changes) {
      // One after the other: each is judged by what the one before it left.
      const turn = last.then(() => swap(changes));
      last = turn.catch(() => {});
      return turn;
    },
    async close() {
      await last;
    },
  };
}
