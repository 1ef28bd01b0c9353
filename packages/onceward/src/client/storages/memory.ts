import {
  type Change,
  type Entry,
  meetsExpectation,
  type OutboxStorage,
  type RangeQuery,
} from './outbox-storage.ts';

/** Forgets everything with the process: for tests, and for pages that may not store anything. */
export function memoryStorage(): OutboxStorage {
  const index = new SortedIndex();
  return {
    async read(keys) {
      return keys.map((key) => index.get(key));
    },
    async range(query) {
      return index.range(query);
    },
    async count(prefix) {
      return index.count(prefix);
    },
    async swap(changes) {
      return index.swap(changes);
    },
    async close() {},
  };
}

/** A sorted map in memory; also the index of storages that keep a log. Entries are copied as JSON text. */
export class SortedIndex {
  readonly #texts = new Map<string, string>();
  #keys: string[] = [];

  get(key: string): Entry | undefined {
    const text = this.#texts.get(key);
    return text === undefined ? undefined : (JSON.parse(text) as Entry);
  }

  range({ prefix, after = '', limit }: RangeQuery): { key: string; entry: Entry }[] {
    const found: { key: string; entry: Entry }[] = [];
    let at = after > prefix ? this.#place(`${after}\0`) : this.#place(prefix);
    for (; found.length < limit; at += 1) {
      const key = this.#keys[at];
      if (key === undefined || !key.startsWith(prefix)) break;
      const entry = this.get(key);
      if (entry !== undefined) found.push({ key, entry });
    }
    return found;
  }

  count(prefix: string): number {
    return this.#place(`${prefix}\uffff`) - this.#place(prefix);
  }

  agrees(changes: readonly Change[]): boolean {
    return changes.every((change) => meetsExpectation(this.get(change.key), change));
  }

  /** Roughly how much there is: the characters of all entries and their keys. */
  get textLength(): number {
    let length = 0;
    for (const [key, text] of this.#texts) length += key.length + text.length;
    return length;
  }

  apply({ key, next }: Pick<Change, 'key' | 'next'>): void {
    this.set(key, next === null ? null : JSON.stringify(next));
  }

  /** The same, for an entry that is JSON text already. */
  set(key: string, text: string | null): void {
    const known = this.#texts.has(key);
    if (text !== null) {
      this.#texts.set(key, text);
      if (!known) this.#keys.splice(this.#place(key), 0, key);
    } else if (known) {
      this.#texts.delete(key);
      this.#keys.splice(this.#place(key), 1);
    }
  }

  swap(changes: readonly Change[]): boolean {
    if (!this.agrees(changes)) return false;
    for (const change of changes) this.apply(change);
    return true;
  }

  entries(): Iterable<[key: string, text: string]> {
    return this.#texts;
  }

  /** Where `key` is in the order, or would be. */
  #place(key: string): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#keys[middle] as string) < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
