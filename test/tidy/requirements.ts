import type { SourceFile } from './source-file.ts';
import { lineAt } from './source-file.ts';

export const REQUIREMENTS_PAGE = 'docs/reference/requirements.md';

const ROW = /^\| ([EHCJLSURT]\d{1,2}) \| (.*) \| (proven|not yet) \|$/gm;
const ID_IN_TITLE = /\[([EHCJLSURT]\d{1,2})\]/g;
const HOLDS_TITLES = /\.test\.ts$|^packages\/onceward\/src\/testing\//;

export interface Row {
  readonly id: string;
  readonly proven: boolean;
  readonly line: number;
}

export function readRows(page: SourceFile): Row[] {
  return [...page.text.matchAll(ROW)].map((match) => ({
    id: match[1] ?? '',
    proven: match[3] === 'proven',
    line: lineAt(page.text, match.index),
  }));
}

/** Where each id stands in the title of a test. */
export function findProofs(files: readonly SourceFile[]): Map<string, string[]> {
  const proofs = new Map<string, string[]>();
  for (const file of files) {
    if (!HOLDS_TITLES.test(file.path) || file.path.startsWith('test/tidy/')) continue;
    for (const { value, start } of file.strings) {
      for (const [, id = ''] of value.matchAll(ID_IN_TITLE)) {
        const places = proofs.get(id) ?? [];
        proofs.set(id, [...places, `${file.path}:${lineAt(file.text, start)}`]);
      }
    }
  }
  return proofs;
}

/** The page with its last column as the tests have it. */
export function markProven(page: string, proofs: ReadonlyMap<string, readonly string[]>): string {
  return page.replace(
    ROW,
    (_row, id: string, promise: string) =>
      `| ${id} | ${promise} | ${proofs.has(id) ? 'proven' : 'not yet'} |`,
  );
}
