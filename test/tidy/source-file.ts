import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor } from 'oxc-parser';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** One file as the rules see it. Offsets are turned into lines only when something is found. */
export interface SourceFile {
  /** From the root of the workspace, with forward slashes. */
  readonly path: string;
  readonly text: string;
  /** `text` with comments, patterns and the insides of strings blanked, so that a rule about code sees code only. */
  readonly code: string;
  readonly comments: readonly Found[];
  readonly strings: readonly Found[];
  readonly imports: readonly Import[];
  readonly objects: readonly ObjectLiteral[];
  /** Where the type `any` is written. */
  readonly anyAt: readonly number[];
  /** Why the parser gave up; then there is nothing but the text. */
  readonly fault: string | null;
}

export interface Found {
  readonly value: string;
  readonly start: number;
  readonly end: number;
}

export interface ObjectLiteral {
  readonly at: number;
  readonly keys: readonly string[];
  readonly hasSpread: boolean;
}

export interface Import {
  readonly specifier: string;
  readonly typeOnly: boolean;
  readonly at: number;
}

const NOT_OURS = new Set([
  'node_modules',
  'dist',
  'coverage',
  '.git',
  '.data',
  '.snippets',
  '.packed',
]);
const TEXT_FILE = /\.(ts|tsx|mjs|js|json|md|sql|lua|proto|sh|yml|yaml|css|html)$/;
const CODE_FILE = /\.(ts|tsx|mjs)$/;

export function readWorkspace(): SourceFile[] {
  return listFiles('').map((path) => parseFile(path, readFileSync(join(ROOT, path), 'utf8')));
}

function listFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name)) return [];
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return listFiles(path);
    return TEXT_FILE.test(entry.name) && entry.name !== 'package-lock.json' ? [path] : [];
  });
}

export function parseFile(path: string, text: string): SourceFile {
  const none = { comments: [], strings: [], imports: [], objects: [], anyAt: [] };
  const textOnly = { path, text, code: text, ...none };
  if (!CODE_FILE.test(path)) return { ...textOnly, fault: null };
  const parsed = parseSync(path, text, { sourceType: 'module' });
  const fault = parsed.errors[0];
  if (fault !== undefined) return { ...textOnly, fault: fault.message };

  const strings: Found[] = [];
  const patterns: { start: number; end: number }[] = [];
  const objects: ObjectLiteral[] = [];
  const anyAt: number[] = [];
  new Visitor({
    Literal(node) {
      if ('regex' in node) patterns.push(node);
      if (typeof node.value !== 'string') return;
      strings.push({ value: node.value, start: node.start + 1, end: node.end - 1 });
    },
    TemplateElement(node) {
      strings.push({ value: node.value.raw, start: node.start, end: node.end });
    },
    ObjectExpression({ start, properties }) {
      const named = properties.filter((property) => property.type === 'Property');
      const keys = named.map(({ key }) => text.slice(key.start, key.end));
      objects.push({ at: start, keys, hasSpread: named.length < properties.length });
    },
    TSAnyKeyword(node) {
      anyAt.push(node.start);
    },
  }).visit(parsed.program);

  return {
    path,
    text,
    code: blank(text, [...parsed.comments, ...strings, ...patterns]),
    comments: parsed.comments,
    strings,
    imports: readImports(parsed.module, text),
    objects,
    anyAt,
    fault: null,
  };
}

function readImports(module: ReturnType<typeof parseSync>['module'], text: string): Import[] {
  const imports: Import[] = module.staticImports.map((entry) => ({
    specifier: entry.moduleRequest.value,
    typeOnly: entry.entries.length > 0 && entry.entries.every((name) => name.isType),
    at: entry.start,
  }));
  for (const statement of module.staticExports) {
    const from = statement.entries.find((entry) => entry.moduleRequest !== null)?.moduleRequest;
    if (from === undefined || from === null) continue;
    const typeOnly = statement.entries.every((entry) => entry.isType);
    imports.push({ specifier: from.value, typeOnly, at: statement.start });
  }
  for (const entry of module.dynamicImports) {
    const request = text.slice(entry.moduleRequest.start, entry.moduleRequest.end);
    imports.push({ specifier: request.slice(1, -1), typeOnly: false, at: entry.start });
  }
  return imports;
}

function blank(text: string, spans: readonly { start: number; end: number }[]): string {
  let result = '';
  let from = 0;
  for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
    result += text.slice(from, start) + text.slice(start, end).replace(/[^\n]/g, ' ');
    from = end;
  }
  return result + text.slice(from);
}

export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}
