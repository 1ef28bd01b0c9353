/**
 * The first layer of duplicate detection: the keys in flight, by credential. Two lookups and no new
 * memory for a duplicate.
 */
export class InFlightKeys {
  readonly #byCredential = new Map<string, Set<string>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(credential: string, key: string): boolean {
    return this.#byCredential.get(credential)?.has(key) === true;
  }

  add(credential: string, key: string): void {
    const keys = this.#byCredential.get(credential);
    if (keys === undefined) this.#byCredential.set(credential, new Set([key]));
    else keys.add(key);
    this.#size += 1;
  }

  remove(credential: string, key: string): void {
    const keys = this.#byCredential.get(credential);
    if (keys === undefined || !keys.delete(key)) return;
    this.#size -= 1;
    if (keys.size === 0) this.#byCredential.delete(credential);
  }
}
