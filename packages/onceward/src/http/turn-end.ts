let turn: Promise<void> | null = null;

/**
 * The end of this turn of the event loop. Answers that become ready within one turn leave together then: the work of
 * one request is not interrupted by sending for another, and a client or proxy that sleeps is woken once for many.
 * A lone request loses nothing by it, since its turn ends at once.
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
