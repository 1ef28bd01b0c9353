// npm run requirements: brings the last column of the requirements page up to date with the tests, and says which rows
// still have no proof.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findProofs, markProven, REQUIREMENTS_PAGE, readRows } from './requirements.ts';
import { parseFile, ROOT, readWorkspace } from './source-file.ts';

const path = join(ROOT, REQUIREMENTS_PAGE);
const marked = markProven(readFileSync(path, 'utf8'), findProofs(readWorkspace()));
writeFileSync(path, marked);

const rows = readRows(parseFile(REQUIREMENTS_PAGE, marked));
const open = rows.filter((row) => !row.proven).map((row) => row.id);
console.log(`${rows.length - open.length} of ${rows.length} rows are proven by a test.`);
if (open.length > 0) console.log(`Not yet: ${open.join(' ')}`);
