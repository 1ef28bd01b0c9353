import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RowTable } from './row-table.ts';

type Step =
  | { readonly do: 'write'; readonly from: number; readonly n: number }
  | { readonly do: 'remove'; readonly key: string }
  | { readonly do: 'seal' | 'save' | 'take' | 'undo' };

const ROWS = 500;
/** Written at once, so that there are soon several pages. */
const RUN = 25;
const key = fc.nat(ROWS).map((n) => `row/${n}`);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      from: fc.nat(ROWS - RUN),
      n: fc.nat(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), key }) },
  {
    weight: 3,
    arbitrary: fc
      .constantFrom(...(['seal', 'save', 'take', 'undo'] as const))
      .map((what) => ({ do: what })),
  },
);

/** A table, the pages that were saved of it, and what it should hold. */
class Subject {
  readonly pages = new Map<number, string>();
  readonly source = { readPage: (page: number) => this.pages.get(page) };
  /** So small that whatever can be forgotten is. */
  readonly table = RowTable.empty(this.source, 0);
  sealed = new Map<string, number>();
  current = new Map<string, number>();
  readonly #taken = new Map<number, string>();
  #mark = this.table.mark();

  take(next: Step): void {
    switch (next.do) {
      case 'write':
        for (let at = next.from; at < next.from + RUN; at += 1) {
          this.table.write(`row/${at}`, { n: next.n });
          this.current.set(`row/${at}`, next.n);
        }
        return;
      case 'remove':
        this.table.remove(next.key);
        this.current.delete(next.key);
        return;
      case 'undo':
        this.table.undoTo(this.#mark);
        this.current = new Map(this.sealed);
        return;
      case 'take':
        // Taken only between seals, as checkpoints are.
        this.#seal();
        for (const [page, text] of this.table.takeDirtyPages()) this.#taken.set(page, text);
        return;
      case 'save':
        this.take({ do: 'take' });
        this.finishSaving();
        return;
      default:
        this.#seal();
    }
  }

  finishSaving(): void {
    for (const [page, text] of this.#taken) this.pages.set(page, text);
    this.#taken.clear();
    this.table.saved();
  }

  #seal(): void {
    this.table.seal();
    this.#mark = this.table.mark();
    this.sealed = new Map(this.current);
  }

  contents(): Map<string, number> {
    const found = new Map<string, number>();
    for (let n = 0; n <= ROWS; n += 1) {
      const row = this.table.read<{ n: number }>(`row/${n}`);
      if (row !== undefined) found.set(`row/${n}`, row.n);
    }
    return found;
  }
}

describe('a table of rows', () => {
  it('holds what was written, whatever is sealed, undone, saved or forgotten in between', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const subject = new Subject();
        for (const next of steps) subject.take(next);
        const byKey = (rows: Map<string, number>) => [...rows].sort();
        expect(byKey(subject.contents())).toEqual(byKey(subject.current));
        subject.take({ do: 'save' });
        expect(subject.table.rowCount).toBe(subject.current.size);
        const pages = [...subject.pages].sort(([a], [b]) => a - b).map(([, text]) => text);
        const loaded = RowTable.load(subject.source, pages);
        expect(loaded.root).toBe(subject.table.root);
      }),
      { numRuns: 60 },
    );
  }, 60_000);

  it('keeps what is being saved, and what changes meanwhile, however many pages are read', () => {
    const subject = new Subject();
    for (let from = 0; from < ROWS - RUN; from += RUN) subject.take({ do: 'write', from, n: 1 });
    subject.take({ do: 'save' });
    // One row, so that one page is being saved while the others are read in its place.
    subject.take({ do: 'remove', key: 'row/7' });
    subject.take({ do: 'take' });
    expect(subject.contents()).toEqual(subject.current);
    subject.take({ do: 'remove', key: 'row/8' });
    subject.take({ do: 'seal' });
    subject.finishSaving();
    expect(subject.contents()).toEqual(subject.current);
  });

  it('has one root for one content, in whatever order it was written', () => {
    const names = Array.from({ length: 60 }, (_, n) => `row/${n}`);
    const rootOf = (order: readonly string[]) => {
      const { table } = new Subject();
      for (const name of order) table.write(name, { n: name.length });
      return table.seal();
    };
    expect(rootOf(names.toReversed())).toBe(rootOf(names));
  });
});
