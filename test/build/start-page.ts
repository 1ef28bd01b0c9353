import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Fence, readFences } from '../snippets/fence.ts';
import { ROOT } from './child-process.ts';

/** The TypeScript of a page that helps to start, in its order: what a reader would copy. */
export function codeOfPage(page: string): readonly Fence[] {
  const path = `docs/start/${page}`;
  const fences = readFences(path, readFileSync(join(ROOT, path), 'utf8'));
  return fences.filter(({ language }) => language === 'ts');
}

export const START_PAGES = readdirSync(join(ROOT, 'docs/start'));
