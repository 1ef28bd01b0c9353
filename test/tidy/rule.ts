import { lineAt, type SourceFile } from './source-file.ts';

/** One thing that must hold for every file on its own. */
export interface Rule {
  /** Completes the sentence "in this workspace, …". */
  readonly name: string;
  check(file: SourceFile): Finding[];
}

export interface Finding {
  /** Offset into the file's text. */
  readonly at: number;
  readonly why: string;
}

/** Every violation as `path:line why`, in the order of the files. */
export function applyRule(rule: Rule, files: readonly SourceFile[]): string[] {
  return files.flatMap((file) =>
    rule.check(file).map(({ at, why }) => `${file.path}:${lineAt(file.text, at)} ${why}`),
  );
}
