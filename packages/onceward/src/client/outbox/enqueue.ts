import { ClientError } from '../client-error.ts';
import type { ClientWorld } from '../client-world.ts';
import type { Change } from '../storages/outbox-storage.ts';
import {
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
import { forgetKeys, storageError } from './operation-book.ts';
import { fingerprintOf, invalid } from './request-intake.ts';
import type { OutboxCore } from './runner.ts';
import { FRESH, isAtStart } from './transition.ts';

/** What is to be queued, checked; nothing of it can be changed by its giver any more. */
export interface Wanted {
  readonly owner: string | null;
  readonly lane: string;
  readonly label: string | null;
  readonly meta: unknown;
  /** `undefined`: one is minted, which is new. */
  readonly key: string | undefined;
  /** One request, or the steps of a group. */
  readonly taken: StoredRequest | readonly Step[];
  /** The same payload under another key is caught if it was queued within this time. */
  readonly catchWithinMs: number | null;
  readonly coalesce: string | null;
}

/** The operation that it becomes, but for its id. */
interface Intent {
  readonly operation: WaitingOperation;
  readonly catchWithinMs: number | null;
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
  /** The waiting operation that this one replaced, if it was asked to. */
  readonly superseded: string | null;
}

/** What came of an intent. A refusal is a value here: it must not take the rest of the batch with it. */
type End = Queued | ClientError;

/** One that waits to be written. */
interface Item {
  readonly wanted: Wanted;
  readonly resolve: (queued: Queued) => void;
  readonly reject: (error: ClientError) => void;
  intent?: Intent;
}

type OnQueued = (queued: Queued, lane: string) => void;

/** A browser takes some 40 µs of the page's time for each entry, and there are two for each operation. */
const MOST_AT_ONCE = 50;

/**
 * Writes intents to the storage, those that wait together in one swap: a page that queues many at once pays for
 * one durable write, not for each.
 */
export class Enqueuer {
  readonly #core: OutboxCore;
  readonly #onQueued: OnQueued;
  readonly #items: Item[] = [];
  /** Settles when all that was given so far is written, which happens one batch after the other. */
  last: Promise<unknown> | null = null;

  constructor(core: OutboxCore, onQueued: OnQueued) {
    this.#core = core;
    this.#onQueued = onQueued;
  }

  /**
   * May be called ten thousand times in one turn, which blocks the page. So it only queues: the rest is done in
   * batches.
   */
  add(wanted: Wanted): Promise<Queued> {
    this.last ??= this.#writeAll();
    return new Promise((resolve, reject) => {
      this.#items.push({ wanted, resolve, reject });
    });
  }

  async #writeAll(): Promise<void> {
    // What is given in the same turn is written together.
    await null;
    while (this.#items.length > 0) await this.#write(this.#items.splice(0, MOST_AT_ONCE));
    this.last = null;
  }

  /** In one swap; if that fails, one by one: one that is too large must not take the others down with it. */
  async #write(items: readonly Item[]): Promise<void> {
    try {
      const intents = await Promise.all(items.map((item) => this.#intend(item)));
      const ends = await this.#swap(intents);
      items.forEach(({ wanted, resolve, reject }, i) => {
        const end = ends[i] as End;
        if (end instanceof ClientError) {
          reject(end);
        } else {
          if (end.status === 'queued') this.#onQueued(end, wanted.lane);
          resolve(end);
        }
      });
    } catch (error) {
      if (items.length === 1) items[0]?.reject(storageError(error));
      else for (const item of items) await this.#write([item]);
    }
  }

  /** Once for each: its key must not change when it is tried again. */
  async #intend(item: Item): Promise<Intent> {
    const { key, taken, catchWithinMs, ...wanted } = item.wanted;
    const group = 'length' in taken;
    const steps = group ? taken : [newStep(key ?? this.#core.mintKey(), taken)];
    const requests = steps.map((step) => step.request);
    const fingerprint = await fingerprintOf(requests, this.#core.world);
    item.intent ??= {
      catchWithinMs,
      operation: {
        ...wanted,
        ...FRESH,
        id: '',
        group,
        steps,
        fingerprint,
        state: 'waiting',
        version: 1,
        createdAt: this.#core.world.now(),
        direction: 'forward',
        cursor: 0,
        cause: null,
      },
    };
    return item.intent;
  }

  /** Retries until no other tab writes between the read and the swap. */
  async #swap(intents: readonly Intent[]): Promise<readonly End[]> {
    for (;;) {
      const { ends, changes } = await this.#draft(intents);
      if (changes.length === 0) return ends;
      try {
        if (await this.#core.book.swap(changes)) return ends;
      } catch (error) {
        // A write that failed may still have been made: then its keys are known by now.
        const again = await this.#draft(intents).catch(() => null);
        if (again?.changes.length === 0) return ends;
        throw error;
      }
    }
  }

  async #draft(intents: readonly Intent[]): Promise<{ ends: End[]; changes: Change[] }> {
    const places = [layout.position, ...intents.flatMap(placesOf)];
    const [position, ...pointers] = await this.#core.book.storage.read(places);
    const met: Met = new Map();
    for (const [i, pointer] of pointers.entries()) {
      const operation = pointer && (await this.#core.book.find((pointer as Pointer).id));
      if (operation) met.set(places[i + 1] ?? '', operation);
    }
    const first = (position as Position | undefined)?.last ?? randomStart(this.#core.world);
    let last = first;
    const changes = new Map<string, Change>();
    const ends = intents.map((intent): End => {
      const seen = seenBefore(intent, met, this.#core.world.now());
      if (seen !== null) return seen;
      last += 1;
      const { owner, lane } = intent.operation;
      const operation = { ...intent.operation, id: layout.id(owner, lane, last) };
      const superseded = supersededBy(operation, met);
      if (superseded !== null) remove(superseded, changes);
      const place = layout.waiting + operation.id;
      changes.set(place, { key: place, next: operation });
      const pointer: Pointer = { version: 1, id: operation.id };
      for (const key of placesOf(intent)) {
        changes.set(key, { key, next: pointer });
        met.set(key, operation);
      }
      return answerFor(operation, 'queued', superseded?.id);
    });
    if (last > first) {
      const next: Position = { version: last, last };
      const expected = position?.version ?? null;
      changes.set(layout.position, { key: layout.position, expected, next });
    }
    return { ends, changes: [...changes.values()] };
  }
}

/** What the storage held when the draft was begun and what it has added since, by the places that point to them. */
type Met = Map<string, Operation>;

/** The answer for an intent that was here before; `null` if it is new. */
function seenBefore(intent: Intent, met: Met, now: number): End | null {
  const { owner, fingerprint } = intent.operation;
  const sameKey = met.get(placesOf(intent)[0] ?? '');
  if (sameKey) {
    return sameKey.fingerprint === fingerprint
      ? answerFor(sameKey, 'known')
      : invalid('the key was used for another request');
  }
  const same = met.get(layout.fingerprint(owner, fingerprint));
  if (intent.catchWithinMs === null || !same) return null;
  if (same.state === 'failed' && same.outcome !== 'unknown') return null;
  const since = same.state === 'done' ? same.doneAt : same.createdAt;
  return same.state === 'waiting' || Math.abs(now - since) < intent.catchWithinMs
    ? answerFor(same, 'duplicate')
    : null;
}

/** The waiting one whose place it takes, which was never sent. */
function supersededBy(operation: WaitingOperation, met: Met): WaitingOperation | null {
  const { owner, lane, coalesce } = operation;
  const older = coalesce === null ? null : met.get(layout.coalesce(owner, lane, coalesce));
  const isUnsent = older?.state === 'waiting' && older.unsettledSince === null && isAtStart(older);
  return isUnsent ? older : null;
}

/** Where a new storage begins to count: far from where one before it did, and far from the end. */
function randomStart(world: ClientWorld): number {
  return world.randomBytes(6).reduce((sum, byte) => sum * 256 + byte, 0);
}

/** Index entries under which this one is found; its key first. */
function placesOf({ operation, catchWithinMs }: Intent): string[] {
  const { owner, lane, fingerprint, coalesce } = operation;
  const [key = ''] = keysOf(operation);
  const places = [layout.key(owner, key)];
  if (catchWithinMs !== null) places.push(layout.fingerprint(owner, fingerprint));
  if (coalesce !== null) places.push(layout.coalesce(owner, lane, coalesce));
  return places;
}

/** One that was added by the same draft was never stored: its addition is dropped instead. */
function remove(operation: WaitingOperation, changes: Map<string, Change>): void {
  const key = layout.waiting + operation.id;
  if (!changes.delete(key)) changes.set(key, { key, expected: operation.version, next: null });
  for (const change of forgetKeys(operation)) changes.set(change.key, change);
}

function answerFor(
  operation: Operation,
  status: Queued['status'],
  superseded: string | null = null,
): Queued {
  const { id, state } = operation;
  const [key = ''] = keysOf(operation);
  return { id, key, status, state, superseded };
}
