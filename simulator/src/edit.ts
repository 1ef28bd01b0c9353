/** One change of one file. What is to be found must be there exactly once. */
export interface Edit {
  /** From the root of the workspace. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** The text with the edits made. Throws when one of them has nothing, or too much, to hold on to. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  return edits.reduce((before, { file, find, replace }) => {
    const pieces = before.split(find);
    if (pieces.length === 2) return pieces.join(replace);
    throw new Error(`${file}: "${find}" is there ${pieces.length - 1} times; it must be once`);
  }, text);
}
