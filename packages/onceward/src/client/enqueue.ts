import { ClientError } from './client-error.ts';
import { type ClientWorld, mintKey } from './client-world.ts';
import {
  type FailedOperation,
  keysOf,
  layout,
  newStep,
  type Operation,
  type Pointer,
  type Position,
  type Step,
  type StoredRequest,
  type WaitingOperation,
} from './operation.ts';
import { forgetKeys, type OperationBook, storageError } from './operation-book.ts';
import type { Change } from './outbox-storage.ts';
import { fingerprintOf, invalid } from './request-intake.ts';
import { FRESH } from './transition.ts';

/** What is to be queued, checked; nothing of it can be changed by its giver any more. */
export interface Wanted {
  readonly lane: string;
  readonly label: string | null;
  /** `undefined`: one is minted, which nobody can know yet. */
  readonly key: string | undefined;
  /** One request, or the steps of a group. */
  readonly taken: StoredRequest | readonly Step[];
  /** The same payload under another key is caught if it was queued within this time. */
  readonly catchWithinMs: number | null;
  readonly coalesce: string | null;
}

/** The same with its keys and its fingerprint. */
interface Intent extends Omit<Wanted, 'key' | 'taken'> {
  readonly group: boolean;
  readonly steps: readonly Step[];
  readonly isNew: boolean;
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

/** What came of an intent. A refusal is a value here: it must not take the rest of the batch with it. */
type End = Queued | ClientError;

/** Operations that are written together. */
interface Batch {
  readonly wanted: Wanted[];
  readonly ends: Promise<readonly End[]>;
  /** Gives the next end. Whoever waits for `ends` is called in the order of joining: one function serves all. */
  readonly takeEnd: (ends: readonly End[]) => Queued;
}

type OnQueued = (queued: Queued, lane: string) => void;

/** A browser takes some 40 µs of the page's time for each entry, and there are two for each operation. */
const MOST_AT_ONCE = 50;
const MOST_TRIES = 100;

/**
 * Writes intents to the storage, those that wait together in one swap: a page that queues many at once pays for
 * one durable write, not for each.
 */
export class Enqueuer {
  readonly #book: OperationBook;
  readonly #world: ClientWorld;
  readonly #onQueued: OnQueued;
  /** The one that can still be joined, until its turn has come. */
  #open: Batch | null = null;
  /** Settles when all that was given so far is written, which happens one batch after the other. */
  last: Promise<unknown> = Promise.resolve();
  /** What this tab wrote last. Another may have come since; the swap finds out. */
  #position: Position | undefined;

  constructor(book: OperationBook, world: ClientWorld, onQueued: OnQueued) {
    this.#book = book;
    this.#world = world;
    this.#onQueued = onQueued;
  }

  /**
   * Someone may call this ten thousand times in one turn, and until that ends the page stands still. So it does
   * next to nothing, and leaves little behind that the collector has to move: the rest is done batch by batch.
   */
  add(one: Wanted): Promise<Queued> {
    if (!this.#open || this.#open.wanted.length === MOST_AT_ONCE) this.#open = this.#begin();
    const { wanted, ends, takeEnd } = this.#open;
    wanted.push(one);
    return ends.then(takeEnd);
  }

  #begin(): Batch {
    const wanted: Wanted[] = [];
    const write = async () => {
      if (this.#open?.wanted === wanted) this.#open = null;
      return this.#write(await Promise.all(wanted.map((one) => this.#intend(one))));
    };
    const ends = this.last.then(write).catch((error) => wanted.map(() => storageError(error)));
    this.last = ends;
    let taken = 0;
    const takeEnd = (ends: readonly End[]) => {
      const end = ends[taken++] as End;
      if (end instanceof ClientError) throw end;
      return end;
    };
    return { wanted, ends, takeEnd };
  }

  /** In one swap; if that fails, one by one: one that is too large must not take the others down with it. */
  async #write(intents: readonly Intent[]): Promise<readonly End[]> {
    try {
      const ends = await this.#swap(intents);
      intents.forEach(({ lane }, i) => {
        const end = ends[i] as Queued;
        if (end.status === 'queued') this.#onQueued(end, lane);
      });
      return ends;
    } catch (error) {
      if (intents.length === 1) return [storageError(error)];
      const ends: End[] = [];
      for (const intent of intents) ends.push(...(await this.#write([intent])));
      return ends;
    }
  }

  async #intend({ key, taken, ...wanted }: Wanted): Promise<Intent> {
    const group = 'length' in taken;
    const steps = group ? taken : [newStep(key ?? mintKey(this.#world), taken)];
    const requests = steps.map((step) => step.request);
    const hash = await fingerprintOf(requests, this.#world);
    return { ...wanted, group, steps, isNew: key === undefined, hash };
  }

  /** Tries until no other tab comes between the look and the swap. */
  async #swap(intents: readonly Intent[]): Promise<readonly End[]> {
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

  async #draft(intents: readonly Intent[]): Promise<Draft> {
    const known = await this.#lookUp(intents);
    let { position } = known;
    const first = position?.last ?? 0;
    let last = first;
    const changes = new Map<string, Change>();
    const queued = intents.map((intent): End => {
      const seen = known.seenBefore(intent, this.#world.now());
      if (seen !== null) return seen;
      last += 1;
      const operation = newOperation(intent, layout.id(intent.lane, last), this.#world.now());
      const superseded = known.supersededBy(intent);
      if (superseded !== null) remove(superseded, changes);
      const pointer: Pointer = { version: 1, id: operation.id };
      const place = layout.waiting + operation.id;
      changes.set(place, { key: place, next: operation });
      for (const key of placesOf(intent)) {
        changes.set(key, { key, next: pointer });
        known.operations.set(key, operation);
      }
      return answerFor(operation, 'queued', superseded?.id ?? null);
    });
    if (last > first) {
      const expected = position?.version ?? null;
      position = { version: last, last };
      changes.set(layout.position, { key: layout.position, expected, next: position });
    }
    return { queued, changes: [...changes.values()], position };
  }

  /** Everything the intents could meet, read in two rounds. */
  async #lookUp(intents: readonly Intent[]): Promise<Known> {
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
  readonly queued: End[];
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
  seenBefore(intent: Intent, now: number): End | null {
    const [place = ''] = placesOf(intent);
    const sameKey = this.operations.get(place);
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

function newOperation(intent: Intent, id: string, now: number): WaitingOperation {
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

/** Where others will look to find out whether this one is here; under its key first of all. */
function placesOf(intent: Intent): string[] {
  const { lane, hash, catchWithinMs, coalesce } = intent;
  const [key = ''] = keysOf(intent);
  const places = [layout.key(key)];
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
  for (const change of forgetKeys(operation)) {
    changes.set(change.key, change);
  }
}

function answerFor(
  operation: Operation,
  status: Queued['status'],
  superseded: string | null,
): Queued {
  const { id, state } = operation;
  const [key = ''] = keysOf(operation);
  return { id, key, status, state, superseded };
}
