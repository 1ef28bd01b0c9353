import type { OperationId, Revision } from '../engine/record.ts';

/** So many records are remembered at most: two to the power of these bits. */
const BITS = 12;
const PLACES = 2 ** BITS;

/**
 * Something about a record, by the revision that it was given lately. A claim is settled soon after it was granted, and
 * then what was found out for the one serves the other. A later revision may have taken the place.
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

  of({ scope, key }: OperationId, revision: Revision): T | null {
    const place = placeOf(revision);
    if (this.#revisions[place] !== revision) return null;
    const id = this.#ids[place] as OperationId | null;
    return id?.key === key && id.scope === scope ? (this.#noted[place] as T | null) : null;
  }
}

/** Spread, whether revisions follow one another or leave gaps. */
function placeOf(revision: Revision): number {
  return Math.imul(revision, 0x9e3779b1) >>> (32 - BITS);
}
