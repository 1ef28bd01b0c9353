import { expect, it } from 'vitest';
import { mayRun, readFences } from './fence.ts';

const markdown = [
  'Words.',
  '```ts',
  'const a = 1;',
  '```',
  '- item',
  '  ```sh run',
  '  echo hello',
  '  ```',
  '```ts no-run: needs a server of your own',
  'await serve();',
  '```',
].join('\n');

it('finds each fenced block with its place, language, note and code', () => {
  expect(readFences('a.md', markdown)).toEqual([
    { document: 'a.md', line: 2, language: 'ts', note: '', code: 'const a = 1;' },
    { document: 'a.md', line: 6, language: 'sh', note: 'run', code: 'echo hello' },
    {
      document: 'a.md',
      line: 9,
      language: 'ts',
      note: 'no-run: needs a server of your own',
      code: 'await serve();',
    },
  ]);
});

it('runs TypeScript unless a reason is given not to', () => {
  const [plain, , reasoned] = readFences('a.md', markdown);
  expect(mayRun(plain!)).toBe(true);
  expect(mayRun(reasoned!)).toBe(false);
});

it('refuses a block that is left out without a reason', () => {
  const [fence] = readFences('a.md', '```ts no-run\n```');
  expect(() => mayRun(fence!)).toThrow('a.md:1');
});

it('refuses a block that is never closed', () => {
  expect(() => readFences('a.md', '```ts\nconst a = 1;')).toThrow('a.md:1');
});
