import type { ClientWorld } from './client-world.ts';
import { type FailedOperation, layout, type Step } from './operation.ts';
import { forgetKeys, type OperationBook, pointTo } from './operation-book.ts';
import type { Change } from './outbox-storage.ts';
import { revive } from './transition.ts';

const FORMAT = 'onceward-failed-operation/1';

export interface ImportReport {
  readonly imported: number;
  /** Lines whose operation is already here, failed, waiting or done. */
  readonly known: number;
  readonly refused: readonly { readonly line: number; readonly reason: string }[];
}

/** Operations that ended without success, kept with their keys and reasons until someone decides. */
export class FailedOperations {
  readonly #book: OperationBook;
  readonly #world: ClientWorld;
  readonly #changed: (operation: { id: string; lane: string }) => void;

  constructor(
    book: OperationBook,
    world: ClientWorld,
    changed: (operation: { id: string; lane: string }) => void,
  ) {
    this.#book = book;
    this.#world = world;
    this.#changed = changed;
  }

  list(): AsyncIterable<FailedOperation> {
    return this.#book.all<FailedOperation>(layout.failed);
  }

  /**
   * Puts it back in its lane, at its old place. What may have happened keeps its key; what was refused gets a
   * new one. `false`: there is no such failed operation.
   */
  async retry(id: string): Promise<boolean> {
    const failed = await this.#book.failed(id);
    if (failed === null) return false;
    const next = { ...revive(failed, this.#world), version: failed.version + 1 };
    const changes: Change[] = [
      { key: layout.failed + id, expected: failed.version, next: null },
      { key: layout.waiting + id, expected: null, next },
      ...forgetKeys(keysOf(failed)),
      ...keysOf(next)
        .slice(0, 1)
        .map((key) => pointTo(id, key, next.createdAt)),
    ];
    const won = await this.#book.swap(changes);
    if (won) this.#changed(failed);
    return won;
  }

  /** Forgets it for good, its payload included. */
  async discard(id: string): Promise<boolean> {
    const failed = await this.#book.failed(id);
    if (failed === null) return false;
    const won = await this.#book.swap([
      { key: layout.failed + id, expected: failed.version, next: null },
      ...forgetKeys(keysOf(failed)),
    ]);
    if (won) this.#changed(failed);
    return won;
  }

  /** One JSON object a line, newline included. Holds payloads: treat it as you treat them. */
  async *export(): AsyncIterable<string> {
    for await (const operation of this.list()) {
      yield `${JSON.stringify({ format: FORMAT, operation })}\n`;
    }
  }

  /** Takes in what `export` wrote, as failed operations: nothing is sent until someone says `retry`. */
  async import(jsonl: string): Promise<ImportReport> {
    let imported = 0;
    let known = 0;
    const refused: { line: number; reason: string }[] = [];
    for (const [i, text] of jsonl.split('\n').entries()) {
      if (text.trim() === '') continue;
      const operation = parseLine(text);
      if (typeof operation === 'string') refused.push({ line: i + 1, reason: operation });
      else if (await this.#takeIn(operation)) imported += 1;
      else known += 1;
    }
    return { imported, known, refused };
  }

  async #takeIn(operation: FailedOperation): Promise<boolean> {
    const [key = ''] = keysOf(operation);
    if ((await this.#book.findByKey(key)) !== null) return false;
    if ((await this.#book.find(operation.id)) !== null) return false;
    const won = await this.#book.swap([
      { key: layout.failed + operation.id, expected: null, next: operation },
      pointTo(operation.id, key, operation.createdAt),
    ]);
    if (won) this.#changed(operation);
    return won;
  }
}

function keysOf(operation: { readonly steps: readonly Step[] }): string[] {
  return operation.steps.map((step) => step.key);
}

/** The operation of one exported line, or what is wrong with the line. */
function parseLine(text: string): FailedOperation | string {
  let line: { format?: unknown; operation?: Partial<FailedOperation> } | null;
  try {
    line = JSON.parse(text);
  } catch {
    return 'the line is not JSON';
  }
  if (line?.format !== FORMAT) return `the line is not of the format ${FORMAT}`;
  const { operation } = line;
  const sound =
    operation?.state === 'failed' &&
    typeof operation.id === 'string' &&
    typeof operation.lane === 'string' &&
    operation.id.startsWith(`${encodeURIComponent(operation.lane)}/`) &&
    Number.isSafeInteger(operation.version) &&
    Array.isArray(operation.steps) &&
    operation.steps.length > 0 &&
    operation.steps.every(isStep);
  return sound ? (operation as FailedOperation) : 'the operation is incomplete';
}

function isStep(step: Partial<Step> | null): boolean {
  return (
    typeof step?.key === 'string' &&
    typeof step.request?.url === 'string' &&
    typeof step.request.method === 'string'
  );
}
