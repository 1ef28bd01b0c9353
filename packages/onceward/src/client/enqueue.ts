import { ClientError } from './client-error.ts';
import type { ClientWorld } from './client-world.ts';
import {
  type FailedOperation,
  layout,
  type Operation,
  type Pointer,
  type Position,
  type Step,
  type WaitingOperation,
} from './operation.ts';
import { forgetKeys, type OperationBook, storageError } from './operation-book.ts';
import type { Change } from './outbox-storage.ts';
import { fingerprintOf, invalid } from './request-intake.ts';
import { FRESH } from './transition.ts';

/** What is to be queued, checked and with its keys. */
export interface Intent {
  readonly lane: string;
  readonly label: string | null;
  readonly group: boolean;
  readonly steps: readonly Step[];
  /** The key was minted for this intent: nobody can know it yet. */
  readonly isNew: boolean;
  /** The same payload under another key is caught if it was queued within this time. */
  readonly catchWithinMs: number | null;
  readonly coalesce: string | null;
}

interface HashedIntent extends Intent {
  readonly hash: string;
}

export interface Queued {
  readonly id: string;
  readonly key: string;
  /**
   * `queued`: it is stored and will be sent. `known`: this key was queued before, `id` says where it is now.
   * `duplicate`: another operation with the same payload was queued a short while ago; nothing was added.
   */
  readonly status: 'queued' | 'known' | 'duplicate';
  /** What is known of the operation at this moment, when nothing was added. */
  readonly state: Operation['state'];
  /** The waiting operation that this one replaced, if it was told to. */
  readonly superseded: string | null;
}

interface PendingIntent {
  /** Called once, when its batch is written: ten thousand at once must not hold up the page. */
  readonly make: () => Intent;
  readonly resolve: (queued: Queued) => void;
  readonly reject: (error: unknown) => void;
}

interface MadeIntent extends PendingIntent {
  readonly intent: Intent;
}

const MOST_AT_ONCE = 100;
const MOST_TRIES = 100;

/**
 * Writes intents to the storage, those that wait together in one swap: a page that queues many at once pays for
 * one durable write, not for each.
 */
export class Enqueuer {
  readonly #book: OperationBook;
  readonly #world: ClientWorld;
  #pending: PendingIntent[] = [];
  #writing = false;
  /** What this tab wrote last. Another may have come since; the swap finds out. */
  #position: Position | undefined;

  constructor(book: OperationBook, world: ClientWorld) {
    this.#book = book;
    this.#world = world;
  }

  add(make: () => Intent): Promise<Queued> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ make, resolve, reject });
      if (!this.#writing) void this.#writeAll();
    });
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    // Gives the callers of the same turn the time to join.
    await Promise.resolve();
    while (this.#pending.length > 0) {
      const batch = this.#pending.splice(0, MOST_AT_ONCE);
      await this.#writeBatch(batch.map((one) => ({ ...one, intent: one.make() })));
    }
    this.#writing = false;
  }

  async #writeBatch(batch: readonly MadeIntent[]): Promise<void> {
    try {
      const queued = await this.#write(
        await Promise.all(batch.map((one) => this.#hash(one.intent))),
      );
      batch.forEach(({ resolve, reject }, i) => {
        const one = queued[i] as Queued | ClientError;
        if (one instanceof ClientError) reject(one);
        else resolve(one);
      });
    } catch (error) {
      if (batch.length === 1) batch[0]?.reject(storageError(error));
      // One that is too large must not take the others down with it.
      else for (const one of batch) await this.#writeBatch([one]);
    }
  }

  async #hash(intent: Intent): Promise<HashedIntent> {
    const requests = intent.steps.map((step) => step.request);
    return { ...intent, hash: await fingerprintOf(requests, this.#world) };
  }

  /** Tries until no other tab comes between the look and the swap. */
  async #write(intents: readonly HashedIntent[]): Promise<(Queued | ClientError)[]> {
    for (let tries = 1; tries <= MOST_TRIES; tries += 1) {
      const draft = await this.#draft(intents);
      if (draft.changes.length === 0) return draft.queued;
      this.#position = undefined;
      try {
        if (await this.#book.swap(draft.changes)) {
          this.#position = draft.position;
          return draft.queued;
        }
      } catch (error) {
        // A write that failed may still have been made: then its keys are known by now.
        const again = await this.#draft(intents).catch(() => null);
        if (again?.changes.length === 0) return draft.queued;
        throw error;
      }
    }
    throw new ClientError('STORAGE_FAILED', 'other tabs kept changing the outbox');
  }

  async #draft(intents: readonly HashedIntent[]): Promise<Draft> {
    const known = await this.#lookUp(intents);
    let { position } = known;
    const first = position?.last ?? 0;
    let last = first;
    const changes = new Map<string, Change>();
    const queued = intents.map((intent): Queued | ClientError => {
      const seen = known.seenBefore(intent, this.#world.now());
      if (seen !== null) return seen;
      last += 1;
      const operation = newOperation(intent, layout.id(intent.lane, last), this.#world.now());
      const superseded = known.supersededBy(intent);
      if (superseded !== null) remove(superseded, changes);
      const pointer: Pointer = { version: 1, id: operation.id, at: operation.createdAt };
      const place = layout.waiting + operation.id;
      changes.set(place, { key: place, expected: null, next: operation });
      for (const key of placesOf(intent)) {
        changes.set(key, { key, next: pointer });
        known.operations.set(key, operation);
      }
      return answerFor(operation, 'queued', superseded?.id ?? null);
    });
    if (last > first) {
      const expected = position?.version ?? null;
      position = { version: (expected ?? 0) + 1, last };
      changes.set(layout.position, { key: layout.position, expected, next: position });
    }
    return { queued, changes: [...changes.values()], position };
  }

  /** Everything the intents could meet, read in two rounds. */
  async #lookUp(intents: readonly HashedIntent[]): Promise<Known> {
    const places = intents.flatMap(placesOf);
    // New keys that ask for nothing else cannot meet anything: the usual case, and one look less.
    if (
      this.#position &&
      intents.every((intent) => intent.isNew) &&
      places.length === intents.length
    ) {
      return new Known(this.#position);
    }
    const [position, ...pointers] = await this.#book.storage.read([layout.position, ...places]);
    const known = new Known(position as Position | undefined);
    for (const [i, place] of places.entries()) {
      const pointer = pointers[i] as Pointer | undefined;
      const operation = pointer && (await this.#book.find(pointer.id));
      if (operation) known.operations.set(place, operation);
    }
    return known;
  }
}

interface Draft {
  readonly queued: (Queued | ClientError)[];
  readonly changes: readonly Change[];
  readonly position: Position | undefined;
}

/** What the storage held when the draft was begun, together with what the draft has added since. */
class Known {
  readonly position: Position | undefined;
  /** By the places that point to them. */
  readonly operations = new Map<string, Operation>();

  constructor(position: Position | undefined) {
    this.position = position;
  }

  /** The answer for an intent that was here before; `null` if it is new. */
  seenBefore(intent: HashedIntent, now: number): Queued | ClientError | null {
    const sameKey = this.operations.get(layout.key(firstKey(intent)));
    if (sameKey) {
      return sameKey.fingerprint === intent.hash
        ? answerFor(sameKey, 'known', null)
        : invalid('the key was used for another request; take a new one');
    }
    if (intent.catchWithinMs === null) return null;
    const samePayload = this.operations.get(layout.fingerprint(intent.hash));
    if (!samePayload || hasNotHappened(samePayload)) return null;
    const since = samePayload.state === 'done' ? samePayload.doneAt : samePayload.createdAt;
    return samePayload.state === 'waiting' || Math.abs(now - since) < intent.catchWithinMs
      ? answerFor(samePayload, 'duplicate', null)
      : null;
  }

  supersededBy(intent: Intent): WaitingOperation | null {
    if (intent.coalesce === null) return null;
    const older = this.operations.get(layout.coalesce(intent.lane, intent.coalesce));
    return older?.state === 'waiting' && older.unsettledSince === null && older.cursor === 0
      ? older
      : null;
  }
}

function hasNotHappened(operation: Operation): operation is FailedOperation {
  return operation.state === 'failed' && operation.outcome !== 'unknown';
}

function newOperation(intent: HashedIntent, id: string, now: number): WaitingOperation {
  const { hash: fingerprint, isNew: _new, catchWithinMs: _within, ...kept } = intent;
  return {
    ...kept,
    ...FRESH,
    id,
    fingerprint,
    state: 'waiting',
    version: 1,
    createdAt: now,
    direction: 'forward',
    cursor: 0,
    cause: null,
  };
}

/** Where others will look to find out whether this one is here. */
function placesOf({ lane, steps, hash, catchWithinMs, coalesce }: HashedIntent): string[] {
  const places = [layout.key(steps[0]?.key ?? '')];
  if (catchWithinMs !== null) places.push(layout.fingerprint(hash));
  if (coalesce !== null) places.push(layout.coalesce(lane, coalesce));
  return places;
}

/** One that was added by the same draft was never stored: its addition is dropped instead. */
function remove(operation: WaitingOperation, changes: Map<string, Change>): void {
  const place = layout.waiting + operation.id;
  if (!changes.delete(place)) {
    changes.set(place, { key: place, expected: operation.version, next: null });
  }
  for (const change of forgetKeys(operation.steps.map((step) => step.key))) {
    changes.set(change.key, change);
  }
}

function answerFor(
  operation: Operation,
  status: Queued['status'],
  superseded: string | null,
): Queued {
  return { id: operation.id, key: keyOf(operation), status, state: operation.state, superseded };
}

export function keyOf(operation: Operation): string {
  const key = operation.state === 'done' ? operation.keys[0] : operation.steps[0]?.key;
  return key ?? '';
}

function firstKey(intent: Intent): string {
  return intent.steps[0]?.key ?? '';
}
