/**
 * What the thread of the database runs, as text, because a file would have to be found again: a bundler moves the
 * code that resolves it and leaves the file behind. Run from source, the thread has to be taught TypeScript first.
 * The build writes the whole program in place of this function (scripts/thread-program.mjs).
 */
export function threadProgram(): string {
  const loader = new URL('../../../../../scripts/typescript.mjs', import.meta.url).href;
  const file = new URL('./sqlite-worker.ts', import.meta.url).href;
  return `import('${loader}').then(() => import('${file}'))`;
}
