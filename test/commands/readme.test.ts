import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

it('[U1] README names the two commands that do all their own set-up', () => {
  const tryIt = readme.slice(readme.indexOf('## Try it'), readme.indexOf('## What each store'));
  expect(tryIt).toContain('npm start');
  expect(tryIt).toContain('npm test');
});
