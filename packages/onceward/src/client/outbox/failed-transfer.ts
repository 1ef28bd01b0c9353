import type { FailedOperations } from './failed-operations.ts';
import { type FailedOperation, layout, ownerOf, type Step } from './operation.ts';
import { pointTo } from './operation-book.ts';
import type { Outbox } from './outbox.ts';

const FORMAT = 'onceward-failed-operation/1';

export interface ImportReport {
  readonly imported: number;
  /** Lines whose operation is already here, failed, waiting or done. */
  readonly known: number;
  readonly refused: readonly { readonly line: number; readonly reason: string }[];
}

/** Failed operations, one JSON object a line, newline included. Holds payloads: treat it as you treat them. */
export async function* exportFailed(outbox: Outbox): AsyncIterable<string> {
  for await (const operation of outbox.failed.list()) {
    yield `${JSON.stringify({ format: FORMAT, operation })}\n`;
  }
}

/** Takes in what `exportFailed` wrote, as failed operations: nothing is sent until someone says `retry`. */
export async function importFailed(outbox: Outbox, jsonl: string): Promise<ImportReport> {
  let imported = 0;
  let known = 0;
  const refused: { line: number; reason: string }[] = [];
  for (const [i, text] of jsonl.split('\n').entries()) {
    if (text.trim() === '') continue;
    const operation = parseLine(text);
    if (typeof operation === 'string') refused.push({ line: i + 1, reason: operation });
    else if (await takeIn(outbox.failed, operation)) imported += 1;
    else known += 1;
  }
  return { imported, known, refused };
}

/** `false`: it is here already, failed, waiting or done. */
async function takeIn(failed: FailedOperations, operation: FailedOperation): Promise<boolean> {
  const key = operation.steps[0]?.key ?? '';
  // Ids are only unique where they were given; the key makes it so everywhere.
  const id = `${operation.id}.${encodeURIComponent(key)}`;
  const { book } = failed.core;
  if ((await book.findByKey(ownerOf(operation), key)) ?? (await book.find(id))) return false;
  const next: FailedOperation = { ...operation, id };
  return failed.swap(id, [{ key: layout.failed + id, expected: null, next }, pointTo(next)]);
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
    layout.queueOf(operation.id) === layout.queueOf(idOf(operation)) &&
    Number.isSafeInteger(operation.version) &&
    Array.isArray(operation.steps) &&
    operation.steps.length > 0 &&
    operation.steps.every(isStep);
  return sound ? (operation as FailedOperation) : 'the operation is incomplete';
}

/** Whatever its number. */
function idOf({ owner = null, lane = '' }: Partial<FailedOperation>): string {
  return layout.id(owner, lane, 0);
}

function isStep(step: Partial<Step> | null): boolean {
  return (
    typeof step?.key === 'string' &&
    typeof step.request?.url === 'string' &&
    typeof step.request.method === 'string'
  );
}
