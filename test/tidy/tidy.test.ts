import { describe, expect, it } from 'vitest';
import { ERRORS } from '../../packages/onceward/src/engine/errors.ts';
import { embeddedModules } from './embedded-text.ts';
import { importRule } from './import-rules.ts';
import { findProofs, REQUIREMENTS_PAGE, readRows } from './requirements.ts';
import { ROOMS_PAGE, withRoomTables } from './room-table.ts';
import { applyRule } from './rule.ts';
import { readWorkspace, type SourceFile } from './source-file.ts';
import { textRules } from './text-rules.ts';
import { lostHops, WALKS_PAGE } from './walks.ts';

const ERRORS_PAGE = 'docs/reference/errors.md';

const files = readWorkspace();

function page(path: string): SourceFile {
  const file = files.find((candidate) => candidate.path === path);
  if (file === undefined) throw new Error(`${path} is missing`);
  return file;
}

describe('in this workspace', () => {
  it('there is something to look at', () => {
    expect(files.length).toBeGreaterThan(20);
  });

  for (const rule of [importRule, ...textRules]) {
    it(rule.name, () => {
      expect(applyRule(rule, files)).toEqual([]);
    });
  }
});

/** More than this is several rooms in one. */
const MOST_IN_A_FOLDER = 20;

describe('folders', () => {
  it(`no folder has more than ${MOST_IN_A_FOLDER} source files`, () => {
    const counts = new Map<string, number>();
    for (const { path } of files) {
      if (!path.endsWith('.ts') || /\.(test|fixture|sql|lua)\.ts$/.test(path)) continue;
      const folder = path.slice(0, path.lastIndexOf('/'));
      if (folder.split('/').includes('src')) counts.set(folder, (counts.get(folder) ?? 0) + 1);
    }
    expect([...counts].filter(([, count]) => count > MOST_IN_A_FOLDER)).toEqual([]);
  });
});

describe('what is embedded', () => {
  it('every SQL and Lua file has a module with the same text, which `npm run embed` writes', () => {
    const wanted = embeddedModules(files);
    const found = new Map(
      files
        .filter(({ path }) => /\.(sql|lua)\.ts$/.test(path))
        .map(({ path, text }) => [path, text]),
    );
    expect(wanted.size).toBeGreaterThan(0);
    expect(found).toEqual(wanted);
  });
});

describe('the documents agree with the code', () => {
  it('every error code is in the errors page with its advice, and no other is', () => {
    const documented = [...page(ERRORS_PAGE).text.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)];
    const fromPage = Object.fromEntries(documented.map(([, code, retry]) => [code, retry]));
    const fromCode = Object.fromEntries(
      Object.entries(ERRORS).map(([code, { retry }]) => [code, retry]),
    );
    expect(fromPage).toEqual(fromCode);
  });

  it('the tables of rooms are those of the import rules, which `npm run rooms` writes', () => {
    expect(page(ROOMS_PAGE).text).toBe(withRoomTables(page(ROOMS_PAGE).text));
  });

  it('every file and function that a walk names is there', () => {
    expect(lostHops(page(WALKS_PAGE).text, files)).toEqual([]);
  });

  it('every requirement that a test title names is in the requirements page', () => {
    const known = new Set(readRows(page(REQUIREMENTS_PAGE)).map((row) => row.id));
    const unknown = [...findProofs(files)].filter(([id]) => !known.has(id));
    expect(unknown.map(([id, places]) => `${places[0]} names ${id}, which is no row`)).toEqual([]);
  });

  it('no row of the requirements page claims a proof that is not there', () => {
    const proofs = findProofs(files);
    const lies = readRows(page(REQUIREMENTS_PAGE)).filter(
      (row) => row.proven && !proofs.has(row.id),
    );
    expect(
      lies.map((row) => `${REQUIREMENTS_PAGE}:${row.line} no test title has [${row.id}]`),
    ).toEqual([]);
  });
});
