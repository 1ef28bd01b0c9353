let turn: Promise<void> | null = null;

/**
 * The end of this turn of the event loop. The requests that were read in one turn go on together from there, step by
 * step: each step finds its code and data near, and their answers leave in one go, so that a client or proxy that
 * sleeps is woken once for many. A lone request loses nothing by it, since its turn ends at once.
 */
export function turnEnd(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = null;
      resolve();
    });
  });
  return turn;
}
