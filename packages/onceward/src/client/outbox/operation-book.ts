import { ClientError } from '../client-error.ts';
import type { Change, Entry, OutboxStorage, RangedEntry } from '../storages/outbox-storage.ts';
import {
  currentRequest,
  type DoneOperation,
  type FailedOperation,
  keysOf,
  layout,
  newStep,
  type Operation,
  ownedBy,
  ownerOf,
  type Pointer,
  type WaitingOperation,
} from './operation.ts';
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
    return (found.find(Boolean) as Operation | undefined) ?? null;
  }

  async findByKey(owner: string | null, key: string): Promise<Operation | null> {
    const pointer = await this.#at<Pointer>(layout.key(owner, key));
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

  /** The oldest operation that waits in an owner's lane. Before it, what cannot be read is moved out of the way. */
  async head(queue: string, now: number): Promise<WaitingOperation | null> {
    for (;;) {
      const prefix = `${layout.waiting}${queue}/`;
      const [first] = await this.storage.range({ prefix, limit: 1 });
      if (first === undefined) return null;
      const operation = first.entry as WaitingOperation;
      if (isReadable(operation, first.key)) return operation;
      await this.swap(setAside(operation, first.key, now));
    }
  }

  /** Every owner's lane in which something waits, in steps that leap over the rest of the lane. */
  async *queues(): AsyncIterable<string> {
    for (let after: string = layout.waiting; ; ) {
      const [first] = await this.storage.range({ prefix: layout.waiting, after, limit: 1 });
      if (first === undefined) return;
      const queue = layout.queueOf(first.key.slice(layout.waiting.length));
      yield queue;
      // After everything that waits in the lane, and before any other; never back, whatever is stored here.
      const end = `${layout.waiting}${queue}/~`;
      after = end > first.key ? end : first.key;
    }
  }

  /** All of an owner's in one state. */
  async *all<T extends Operation>(place: string, owner: string | null): AsyncIterable<T> {
    for await (const { entry } of this.scan(place + ownedBy(owner))) {
      if (ownerOf(entry) === owner) yield entry as T;
    }
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
  replace(previous: WaitingOperation, next: Next): Promise<boolean> {
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

/** Another version of the application may have left something else here. */
function isReadable(operation: WaitingOperation, place: string): boolean {
  try {
    const { key, request } = currentRequest(operation);
    return place === layout.waiting + operation.id && !!(operation.version && key && request.url);
  } catch {
    return false;
  }
}

/** Kept as it is, among the failed ones: it may have been sent, and the user has to resolve it. */
function setAside(found: WaitingOperation, place: string, now: number): Change[] {
  const id = place.slice(layout.waiting.length);
  const [lane = '', owner = null] = layout.queueOf(id).split(':').map(decodeURIComponent).reverse();
  const steps = Array.isArray(found?.steps) ? found.steps : [];
  const sound = { ...found, id, owner, lane, steps, version: 1 };
  const next = fail(sound, 'unknown', { code: 'UNREADABLE', reason: 'cannot be read' }, now);
  return [
    { key: place, next: null },
    { key: layout.failed + id, next },
  ];
}

/** The swap that makes `next` of `previous`; the place of an operation is its state. */
function changesFor(previous: WaitingOperation, next: Next): Change[] {
  const { id, version } = previous;
  const from = { key: layout.waiting + id, expected: version };
  switch (next.state) {
    case 'waiting':
      return [{ ...from, next: { ...next, version: version + 1 } }, ...keyMoved(previous, next)];
    case 'failed':
    case 'done':
      return [
        { ...from, next: null },
        { key: layout[next.state] + id, next: { ...next, version: version + 1 } as Entry },
        ...lateEdit(previous, next),
      ];
    case 'cancelled':
      return [{ ...from, next: null }, ...forgetKeys(previous)];
  }
}

function keyMoved(previous: WaitingOperation, next: WaitingOperation): Change[] {
  return keysOf(previous)[0] === keysOf(next)[0] ? [] : [...forgetKeys(previous), pointTo(next)];
}

export function pointTo(operation: WaitingOperation | FailedOperation): Change {
  const [key = ''] = keysOf(operation);
  const pointer: Pointer = { version: 1, id: operation.id };
  return { key: layout.key(ownerOf(operation), key), next: pointer };
}

export function forgetKeys(operation: Operation): Change[] {
  const owner = ownerOf(operation);
  return keysOf(operation).map((key) => ({ key: layout.key(owner, key), next: null }));
}

/** An edit that could no longer be made is kept where its author will find it. */
function lateEdit(previous: WaitingOperation, next: FailedOperation | DoneOperation): Change[] {
  const { wish } = previous;
  if (wish?.kind !== 'edit') return [];
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
  const why = { code: 'TOO_LATE', reason: 'the original was sent' } as const;
  const late = fail(edited, 'too_late', why, at);
  return [{ key: layout.failed + late.id, next: late }, pointTo(late)];
}

export function storageError(cause: unknown): ClientError {
  if (cause instanceof ClientError) return cause;
  const message = String(cause);
  const isFull = /quota|ENOSPC|no space/i.test(message);
  return new ClientError(isFull ? 'STORAGE_FULL' : 'STORAGE_FAILED', message, { cause });
}
