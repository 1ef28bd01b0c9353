import { describe, expect, it } from 'vitest';
import { importRule } from './import-rules.ts';
import { findProofs, markProven } from './requirements.ts';
import { applyRule } from './rule.ts';
import { parseFile } from './source-file.ts';
import { textRules } from './text-rules.ts';
import { lostHops } from './walks.ts';

const SRC = 'packages/onceward/src';

/** Everything that any rule has to say of one file. */
function findings(path: string, text: string): string[] {
  const file = parseFile(path, text);
  return [importRule, ...textRules].flatMap((rule) => applyRule(rule, [file]));
}

describe('an import across rooms', () => {
  const forbidden: [from: string, statement: string][] = [
    ['engine/record/decide.ts', "import { readFile } from 'node:fs';"],
    ['engine/record/decide.ts', "import { x } from '../../stores/memory/index.ts';"],
    ['engine/record/decide.ts', "export { x } from '../../http/replay.ts';"],
    ['engine/record/decide.ts', "const x = await import('../../http/replay.ts');"],
    ['engine/record/decide.ts', "import { x } from '../run/driver.ts';"],
    ['engine/near/near-tier.ts', "import { x } from '../store-access/store-calls.ts';"],
    ['engine/run/driver.ts', "import { x } from '../operate/sweep.ts';"],
    ['keys/mint.ts', "import type { World } from '../engine/world.ts';"],
    ['keys/mint.ts', "import { randomUUID } from 'node:crypto';"],
    ['stores/wal/index.ts', "import { x } from '../memory/index.ts';"],
    ['stores/wal/index.ts', "import { decide } from '../../engine/record/decide.ts';"],
    ['stores/redis/index.ts', "import { x } from '../../segment-log/index.ts';"],
    ['stores/durability.ts', "import { x } from './wal/index.ts';"],
    ['segment-log/index.ts', "import { decide } from '../engine/record/decide.ts';"],
    ['doors/express.ts', "import { decide } from '../engine/record/decide.ts';"],
    ['http/replay.ts', "import { x } from '../stores/wal/index.ts';"],
    ['jobs/gate.ts', "import { x } from '../stores/wal/index.ts';"],
    ['client/outbox/outbox.ts', "import { x } from 'node:fs';"],
    ['client/outbox/outbox.ts', "import { x } from '../../engine/errors.ts';"],
    ['attic/old.ts', "import { x } from '../engine/errors.ts';"],
    ['jobs/gate.ts', "import { x } from '../../../ledger/src/block.ts';"],
    ['jobs/gate.ts', "import { x } from 'onceward/wal';"],
  ];
  for (const [from, statement] of forbidden) {
    it(`is found: ${from}: ${statement}`, () => {
      expect(findings(`${SRC}/${from}`, `\n${statement}\n`)).toEqual([
        expect.stringContaining(`${SRC}/${from}:2 `),
      ]);
    });
  }

  const allowed: [from: string, statement: string][] = [
    ['engine/engine.ts', "import { mint } from '../keys/mint.ts';"],
    ['engine/run/driver.ts', "import { x } from '../store-access/store-calls.ts';"],
    ['engine/record/decide.test.ts', "import { x } from '../../stores/memory/index.ts';"],
    ['stores/wal/index.ts', "import type { RecordStore } from '../../engine/record-store.ts';"],
    ['stores/wal/index.ts', "import { StoreError } from '../../engine/errors.ts';"],
    ['stores/wal/index.ts', "import { x } from '../../segment-log/index.ts';"],
    ['stores/wal/index.ts', "import { x } from '../durability.ts';"],
    ['doors/express.ts', "import type { World } from '../engine/world.ts';"],
    ['client/storages/node-file.ts', "import { x } from 'node:fs';"],
    ['index.ts', "export { x } from './node-world.ts';"],
  ];
  for (const [from, statement] of allowed) {
    it(`is let through: ${from}: ${statement}`, () => {
      expect(findings(`${SRC}/${from}`, statement)).toEqual([]);
    });
  }

  it('may name a concrete store of the server in its composition only', () => {
    const statement = "import { openWalStore } from 'onceward/wal';";
    expect(findings('packages/server/src/routes.ts', statement)).toHaveLength(1);
    expect(findings('packages/server/src/compose.ts', statement)).toEqual([]);
  });
});

describe('a planted violation', () => {
  const engine = `${SRC}/engine/operate/sweep.ts`;
  const planted: [what: string, path: string, text: string][] = [
    ['a slip of the pen', 'bench/src/a.ts', 'export const = 1;'],
    ['a clock in the engine', engine, 'export const now = Date.now();'],
    ['chance in the engine', engine, 'export const x = Math.random();'],
    ['a timer in the engine', engine, 'setTimeout(() => {}, 1);'],
    ['the environment in the engine', engine, 'export const x = process.env;'],
    ['a record made by the sweeper', engine, "const x = { state: 'pending', createdAt: 1 };"],
    ['a record changed by the sweeper', engine, 'const next = { ...found.record, keepUntil: 1 };'],
    ['a folder named for nothing', `${SRC}/jobs/utils/clock.ts`, ''],
    ['a file named for nothing', `${SRC}/jobs/types.ts`, ''],
    ['a file without end', 'bench/src/long.ts', 'f();\n'.repeat(501)],
    ['a line without end', 'bench/src/wide.ts', `// ${'wide '.repeat(30)}`],
    ['a lone test', 'bench/src/a.test.ts', "it.only('works', () => {});"],
    ['a silent skip', 'bench/src/a.test.ts', "it.skip('works', () => {});"],
    ['something left for later', 'bench/src/a.ts', '// TODO: finish'],
    ['something left for later in a document', 'docs/a.md', 'FIXME'],
    ['any', 'bench/src/a.ts', 'export let x: any;'],
    ['a silenced compiler', 'bench/src/a.ts', '// @ts-ignore'],
    ['an expected error without a reason', 'bench/src/a.ts', '// @ts-expect-error'],
    ["a machine's path", 'bench/src/a.ts', "export const x = '/home/me/x';"],
    ["a registry's host", 'docs/a.md', 'see registry.example.org'],
    ['talk of how it was made', 'docs/a.md', 'As decided in the previous session.'],
    ['a caller without a name', 'bench/src/a.ts', '// Whoever asks gets it.'],
    ['a title that has to be translated', 'bench/src/a.ts', "f('lest it runs twice');"],
    ['a number that has to be translated', 'docs/a.md', 'the how-manieth request'],
  ];
  for (const [what, path, text] of planted) {
    it(`is found with its place: ${what}`, () => {
      expect(findings(path, text)).toEqual([expect.stringMatching(/^[\w/.-]+:\d+ \S/)]);
    });
  }

  const innocent: [what: string, path: string, text: string][] = [
    ['a clock in a comment', engine, '// Date.now() is forbidden here.'],
    ['a clock in a string', engine, "export const x = 'Date.now()';"],
    ['a clock in an engine test', `${SRC}/engine/operate/sweep.test.ts`, 'Date.now();'],
    [
      'a record in an engine test',
      `${SRC}/engine/operate/sweep.test.ts`,
      'const x = { createdAt: 1 };',
    ],
    [
      'a transition',
      `${SRC}/engine/record/transitions.ts`,
      'const x = { ...record, createdAt: 1 };',
    ],
    ['a record that is read', engine, 'const { createdAt } = record; f(record.createdAt);'],
    ['a long string', 'bench/src/a.ts', `export const x = '${'wide '.repeat(30)}';`],
    ['a reasoned skip', 'a.test.ts', "// Needs a loop device.\nit.skip('works', () => {});"],
    ['a reasoned error', 'bench/src/a.ts', '// @ts-expect-error: the option must not exist'],
    ['a header of HTTP', 'docs/a.md', 'The User-Agent header is kept.'],
    ['a word within another', 'docs/a.md', 'The latest is the smallest.'],
  ];
  for (const [what, path, text] of innocent) {
    it(`is not seen in ${what}`, () => {
      expect(findings(path, text)).toEqual([]);
    });
  }
});

describe('a walk', () => {
  const text = 'export function lead() {}\nclass A {\n  protected override async #run<T>() {}\n}';
  const file = parseFile(`${SRC}/engine/run.ts`, text);
  const lost = (hop: string) => lostHops(`<!-- walks -->\n1. ${hop}\n<!-- end -->`, [file]);

  it('names files and functions that are there', () => {
    expect(lost('`engine/run.ts`: `lead`, then `#run`.')).toEqual([]);
  });

  it('is found where it names what is not there', () => {
    expect(lost('`engine/ran.ts`: `lead`.')).toEqual(['engine/ran.ts is no file']);
    expect(lost('`engine/run.ts`: `leads`, `run`.')).toHaveLength(2);
    expect(lostHops('', [file])).toHaveLength(1);
  });
});

describe('a requirement', () => {
  const test = parseFile('bench/src/a.test.ts', "it('[E5] a late writer loses', () => {});");

  it('is proven by a test that has its id in the title', () => {
    expect([...findProofs([test])]).toEqual([['E5', ['bench/src/a.test.ts:1']]]);
  });

  it('is marked from the tests, either way', () => {
    const before = '| E5 | one | not yet |\n| E6 | two | proven |\n';
    const after = '| E5 | one | proven |\n| E6 | two | not yet |\n';
    expect(markProven(before, findProofs([test]))).toBe(after);
  });
});
