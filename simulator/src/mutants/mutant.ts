import type { Edit } from '../edit.ts';
import type { WorldName } from '../worlds.ts';

/** A bug that is put into a copy of the program, to see whether the simulator finds it. */
export interface Mutant {
  readonly name: string;
  /** The requirement that it breaks. */
  readonly breaks: string;
  readonly edits: readonly Edit[];
  /** The world that must find it; the engine's own by default. */
  readonly world?: WorldName;
}

export function inEngine(file: string, find: string, replace: string): Edit {
  return { file: `packages/onceward/src/engine/${file}`, find, replace };
}

/** A bug between device and effect, for the world that has all of it. */
export function endToEnd(name: string, breaks: string, ...edits: readonly Edit[]): Mutant {
  return { name, breaks, edits, world: 'end-to-end' };
}

export function inLibrary(file: string, find: string, replace: string): Edit {
  return { file: `packages/onceward/src/${file}`, find, replace };
}
