import type { SourceFile } from './source-file.ts';

export const WALKS_PAGE = 'ARCHITECTURE.md';

const ROOT = 'packages/onceward/src/';
/** A hop names a file and then functions of it; the next file on the same line begins a new one. */
const NAMED = /`([^`]+)`/g;

/** What the walks name and the code does not have. */
export function lostHops(page: string, files: readonly SourceFile[]): string[] {
  const walks = /<!-- walks -->([\s\S]*?)<!-- end -->/.exec(page)?.[1];
  if (walks === undefined) return [`${WALKS_PAGE} has no walks`];
  return walks.split('\n').flatMap((line) => lostIn(line, files));
}

function lostIn(line: string, files: readonly SourceFile[]): string[] {
  let file: SourceFile | undefined;
  const lost: string[] = [];
  for (const [, name = ''] of line.matchAll(NAMED)) {
    if (name.endsWith('.ts')) {
      file = files.find(({ path }) => path === ROOT + name);
      if (file === undefined) lost.push(`${name} is no file`);
    } else if (file !== undefined && !defines(file.code, name)) {
      lost.push(`${file.path} has no ${name}`);
    }
  }
  return lost;
}

/** As a function, a method or an arrow function that has a name. */
function defines(code: string, name: string): boolean {
  const method = `^ {2}(?:(?:protected|override|async|readonly|static) )*${name}(?:<[^>]*>)?(?:\\(| = )`;
  return new RegExp(`function ${name}\\b|${method}`, 'm').test(code);
}
