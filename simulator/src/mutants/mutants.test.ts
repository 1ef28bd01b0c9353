import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { applyEdits } from '../edit.ts';
import { MUTANTS } from './mutant-list.ts';

const ROOT = new URL('../../../', import.meta.url);

it('every mutant still finds the line that it changes, and no two have one name', async () => {
  expect(MUTANTS.length).toBeGreaterThanOrEqual(20);
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  for (const { edits } of MUTANTS) {
    for (const edit of edits) {
      const text = await readFile(new URL(edit.file, ROOT), 'utf8');
      expect(applyEdits(text, [edit])).not.toBe(text);
    }
  }
});

it('an edit that has nothing or too much to hold on to is refused', () => {
  const edit = { file: 'a.ts', find: 'x', replace: 'y' };
  expect(() => applyEdits('abc', [edit])).toThrow('0 times');
  expect(() => applyEdits('x x', [edit])).toThrow('2 times');
});
