const SHELF_BYTES = 65_536;

/** Longer ones would leave too much of a shelf empty. */
export const LONGEST_SHELVED = SHELF_BYTES / 8;

/** A piece of memory with records side by side. It is never written twice, and goes when nobody refers to it. */
export interface Shelf {
  readonly bytes: Uint8Array;
  used: number;
  /** How many records are still wanted. */
  wanted: number;
}

/** Copies of records, many on a shelf: to the collector of garbage they are one thing, and it need not move them. */
export class RecordShelves {
  #last = newShelf();
  #byteLength = 0;
  /** Where those that were taken lie; a buffer for each would cost more than all the rest. */
  #tray = new Uint8Array(LONGEST_SHELVED);
  #trayUsed = 0;

  /** Of all full shelves on which something is still wanted. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /** The one that the latest record was put on. */
  get last(): Shelf {
    return this.#last;
  }

  /** Gives the place of the record on the last shelf. */
  put(record: Uint8Array): number {
    if (this.#last.used + record.length > SHELF_BYTES) {
      if (this.#last.wanted > 0) this.#byteLength += SHELF_BYTES;
      this.#last = newShelf();
    }
    const shelf = this.#last;
    const start = shelf.used;
    shelf.bytes.set(record, start);
    shelf.used += record.length;
    shelf.wanted += 1;
    return start;
  }

  /** A copy of the record that the caller may keep: whoever holds it does not hold the shelf. */
  take(shelf: Shelf, start: number, size: number): Uint8Array {
    if (this.#tray.length - this.#trayUsed < size) {
      this.#tray = new Uint8Array(LONGEST_SHELVED);
      this.#trayUsed = 0;
    }
    const at = this.#trayUsed;
    this.#tray.set(shelf.bytes.subarray(start, start + size), at);
    this.#trayUsed += size;
    this.release(shelf);
    return this.#tray.subarray(at, at + size);
  }

  /** A record of this shelf is no longer wanted. */
  release(shelf: Shelf): void {
    shelf.wanted -= 1;
    if (shelf.wanted === 0 && shelf !== this.#last) this.#byteLength -= SHELF_BYTES;
  }
}

function newShelf(): Shelf {
  return { bytes: new Uint8Array(SHELF_BYTES), used: 0, wanted: 0 };
}
