import type { OperationId } from '../../engine/record.ts';

/** The swaps of so many operations at once find their rows here. */
const PLACES = 4_096;

/**
 * In which row a revision of a record was written, for the latest of them. A claim is settled soon after it was
 * granted, and then its row need not be searched for. Whoever asks must look whether the row still has that revision.
 */
export class RecentRows {
  readonly #rows = new Int32Array(PLACES);
  readonly #ids: (OperationId | null)[] = Array.from({ length: PLACES }, () => null);

  note(id: OperationId, revision: number, row: number): void {
    const place = revision % PLACES;
    this.#rows[place] = row;
    this.#ids[place] = id;
  }

  /** The row that may have it, or -1. */
  of({ scope, key }: OperationId, revision: number): number {
    const place = revision % PLACES;
    const noted = this.#ids[place] as OperationId | null;
    return noted?.key === key && noted.scope === scope ? (this.#rows[place] as number) : -1;
  }
}
