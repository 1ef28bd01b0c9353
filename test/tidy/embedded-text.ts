import { basename } from 'node:path';
import type { SourceFile } from './source-file.ts';

const EMBEDDED = /^packages\/[^/]+\/src\/.*\.(sql|lua)$/;
const HEADER = /^(--.*\n|\n)*/;

/**
 * SQL and Lua are files of their own. Each has a module beside it with the same text, less the comment at its top:
 * a module is found by every bundler, a file is not.
 */
export function embeddedModules(files: readonly SourceFile[]): Map<string, string> {
  const sources = files.filter((file) => EMBEDDED.test(file.path));
  return new Map(sources.map(({ path, text }) => [`${path}.ts`, moduleOf(basename(path), text)]));
}

function moduleOf(name: string, text: string): string {
  const constant = name
    .replace(/\.\w+$/, '')
    .replaceAll('-', '_')
    .toUpperCase();
  const statements = JSON.stringify(text.replace(HEADER, ''));
  return `// Generated from ${name} by \`npm run embed\`.\nexport const ${constant} = ${statements};\n`;
}
