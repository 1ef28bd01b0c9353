/** One fenced block of a document. */
export interface Fence {
  /** The document's path from the root of the workspace. */
  readonly document: string;
  /** The line of the opening fence, counted from 1. */
  readonly line: number;
  readonly language: string;
  /** What follows the language: `run`, or `no-run` and its reason. */
  readonly note: string;
  readonly code: string;
}

const OPENING = /^( *)(`{3,})([^\s`]*) *([^`]*)$/;

export function readFences(document: string, markdown: string): Fence[] {
  const fences: Fence[] = [];
  const lines = markdown.split('\n');
  for (let index = 0; index < lines.length; index += 1) {
    const opening = OPENING.exec(lines[index] ?? '');
    if (opening === null) continue;
    const [, indent = '', ticks = '', language = '', note = ''] = opening;
    const end = lines.findIndex((line, at) => at > index && line.trim() === ticks);
    if (end === -1) throw new Error(`${document}:${index + 1} opens a block that is never closed`);
    const code = lines.slice(index + 1, end).map((line) => line.slice(indent.length));
    fences.push({ document, line: index + 1, language, note: note.trim(), code: code.join('\n') });
    index = end;
  }
  return fences;
}

/** TypeScript runs unless its note says `no-run` and why; nothing else may stand there. */
export function mayRun(fence: Fence): boolean {
  if (fence.note === '') return true;
  const reason = /^no-run\W+(\w.{9,})$/.exec(fence.note);
  if (reason !== null) return false;
  throw new Error(
    `${fence.document}:${fence.line} says "${fence.note}": write \`no-run: \` and the reason, or nothing`,
  );
}
