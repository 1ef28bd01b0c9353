import type { OperationId, Revision } from '../engine/record.ts';

/** So many records are remembered at most: two to the power of these bits. */
const BITS = 12;
const PLACES = 2 ** BITS;

/**
 * Something about a claim, by the revision that it was given. It is settled soon afterwards, and then what was found
 * out for the one serves the other. A later revision may have replaced it. What was taken is released: ids that were
 * kept for long would all be promoted to the old generation.
 */
export class Recent<T> {
  readonly #ids: (OperationId | null)[] = Array.from({ length: PLACES }, () => null);
  readonly #revisions = new Float64Array(PLACES);
  readonly #noted: (T | null)[] = Array.from({ length: PLACES }, () => null);

  note(id: OperationId, revision: Revision, what: T): void {
    const place = placeOf(revision);
    this.#ids[place] = id;
    this.#revisions[place] = revision;
    this.#noted[place] = what;
  }

  take({ scope, key }: OperationId, revision: Revision): T | null {
    const place = placeOf(revision);
    if (this.#revisions[place] !== revision) return null;
    const id = this.#ids[place] as OperationId | null;
    if (id?.key !== key || id.scope !== scope) return null;
    const noted = this.#noted[place] as T | null;
    this.#ids[place] = null;
    this.#noted[place] = null;
    return noted;
  }
}

/** Spread, whether revisions follow one another or leave gaps. */
function placeOf(revision: Revision): number {
  return Math.imul(revision, 0x9e3779b1) >>> (32 - BITS);
}
