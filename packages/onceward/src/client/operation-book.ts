import { ClientError } from './client-error.ts';
import {
  type DoneOperation,
  type FailedOperation,
  layout,
  newStep,
  type Operation,
  type Pointer,
  type WaitingOperation,
} from './operation.ts';
import type { Change, Entry, OutboxStorage, RangedEntry } from './outbox-storage.ts';
import { FRESH, fail, type Next } from './transition.ts';

const PAGE = 100;

/** What the storage says, in the outbox's own words. Every change of state is one swap. */
export class OperationBook {
  readonly storage: OutboxStorage;

  constructor(storage: OutboxStorage) {
    this.storage = storage;
  }

  async find(id: string): Promise<Operation | null> {
    const places = [layout.waiting, layout.failed, layout.done].map((prefix) => prefix + id);
    const found = await this.storage.read(places);
    return (found.find((entry) => entry !== undefined) as Operation | undefined) ?? null;
  }

  async findByKey(key: string): Promise<Operation | null> {
    const pointer = await this.#at<Pointer>(layout.key(key));
    return pointer && this.find(pointer.id);
  }

  waiting(id: string): Promise<WaitingOperation | null> {
    return this.#at(layout.waiting + id);
  }

  failed(id: string): Promise<FailedOperation | null> {
    return this.#at(layout.failed + id);
  }

  async #at<T extends Entry>(place: string): Promise<T | null> {
    const [entry] = await this.storage.read([place]);
    return (entry as T | undefined) ?? null;
  }

  /** The oldest operation that waits in a lane. */
  async head(lane: string): Promise<WaitingOperation | null> {
    const [first] = await this.storage.range({ prefix: layout.laneOf(lane), limit: 1 });
    return (first?.entry as WaitingOperation | undefined) ?? null;
  }

  /** One head for each lane that has any, in steps that leap over the rest of the lane. */
  async *lanes(): AsyncIterable<string> {
    for (let after: string = layout.waiting; ; ) {
      const [first] = await this.storage.range({ prefix: layout.waiting, after, limit: 1 });
      if (first === undefined) return;
      const { lane } = first.entry as WaitingOperation;
      yield lane;
      after = layout.endOfLane(lane);
    }
  }

  async *all<T extends Operation>(prefix: string): AsyncIterable<T> {
    for await (const { entry } of this.scan(prefix)) yield entry as T;
  }

  /** Everything under a prefix, a page at a time. */
  async *scan(prefix: string): AsyncIterable<RangedEntry> {
    for (let after = prefix; ; ) {
      const page = await this.storage.range({ prefix, after, limit: PAGE });
      yield* page;
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return;
      after = last.key;
    }
  }

  /** Turns a waiting operation into what it becomes. `false`: it has changed since it was read. */
  async replace(previous: WaitingOperation, next: Next): Promise<boolean> {
    return this.swap(changesFor(previous, next));
  }

  async swap(changes: readonly Change[]): Promise<boolean> {
    try {
      return await this.storage.swap(changes);
    } catch (cause) {
      throw storageError(cause);
    }
  }
}

/** The swap that makes `next` of `previous`; the place of an operation is its state. */
function changesFor(previous: WaitingOperation, next: Next): Change[] {
  const { id, version } = previous;
  const from = { key: layout.waiting + id, expected: version };
  const late = lateEdit(previous, next);
  switch (next.state) {
    case 'waiting':
      return [{ ...from, next: { ...next, version: version + 1 } }, ...keyMoved(previous, next)];
    case 'failed':
      return [{ ...from, next: null }, put(layout.failed, next, version + 1), ...late];
    case 'done':
      return [{ ...from, next: null }, put(layout.done, next, version + 1), ...late];
    case 'gone':
      return [{ ...from, next: null }, ...forgetKeys(previous.steps.map((step) => step.key))];
  }
}

function put(prefix: string, next: FailedOperation | DoneOperation, version: number): Change {
  return { key: prefix + next.id, expected: null, next: { ...next, version } };
}

function keyMoved(previous: WaitingOperation, next: WaitingOperation): Change[] {
  const [before, after] = [previous.steps[0]?.key, next.steps[0]?.key];
  if (before === undefined || after === undefined || before === after) return [];
  return [...forgetKeys([before]), pointTo(next.id, after, next.createdAt)];
}

export function pointTo(id: string, key: string, at: number): Change {
  const pointer: Pointer = { version: 1, id, at };
  return { key: layout.key(key), next: pointer };
}

export function forgetKeys(keys: readonly string[]): Change[] {
  return keys.map((key) => ({ key: layout.key(key), next: null }));
}

/** An edit that could no longer be made is kept where its author will find it. */
function lateEdit(previous: WaitingOperation, next: Next): Change[] {
  const { wish } = previous;
  if (wish?.kind !== 'edit' || next.state === 'waiting' || next.state === 'gone') return [];
  const at = next.state === 'failed' ? next.failedAt : next.doneAt;
  const edited: WaitingOperation = {
    ...previous,
    ...FRESH,
    id: `${previous.id}e`,
    version: 1,
    steps: [newStep(wish.key, wish.request)],
    fingerprint: wish.hash,
    coalesce: null,
  };
  const late = fail(edited, 'too_late', 'the original had been sent; the edit was not', at);
  return [
    { key: layout.failed + late.id, expected: null, next: late },
    pointTo(late.id, wish.key, late.createdAt),
  ];
}

export function storageError(cause: unknown): ClientError {
  if (cause instanceof ClientError) return cause;
  const full =
    cause instanceof Error && /quota|ENOSPC|no space/i.test(`${cause.name} ${cause.message}`);
  return full
    ? new ClientError('STORAGE_FULL', 'the storage of this device is full', { cause })
    : new ClientError('STORAGE_FAILED', 'the storage of the outbox failed', { cause });
}
