import type { Edit } from '../edit.ts';

/** A bug that is put into a copy of the program, to see whether the simulator finds it. */
export interface Mutant {
  readonly name: string;
  /** The requirement that it breaks. */
  readonly breaks: string;
  readonly edits: readonly Edit[];
}

export function inEngine(file: string, find: string, replace: string): Edit {
  return { file: `packages/onceward/src/engine/${file}`, find, replace };
}
