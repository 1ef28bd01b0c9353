import {
  type NextRecord,
  type OperationId,
  type RecordStore,
  type Revision,
  type ScannedRecord,
  type ScanQuery,
  StoreError,
  type SwapResult,
} from 'onceward';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import { type Life, never } from './life.ts';

export interface StoreFaults {
  requestLost: number;
  replyLost: number;
  down: boolean;
}

/** A database that several processes share. It keeps what it has acknowledged; the way there is as bad as any. */
export class SharedStore {
  readonly faults: StoreFaults;
  readonly #records = new Map<string, ScannedRecord>();
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  #revision: Revision = 0;

  constructor(time: VirtualTime, dice: Dice, faults: StoreFaults) {
    this.#time = time;
    this.#dice = dice;
    this.faults = faults;
  }

  /** The records of a state, as they are. */
  inState(state: ScannedRecord['state']): ScannedRecord[] {
    return [...this.#records.values()].filter((record) => record.state === state);
  }

  /** As one process reaches it. */
  openFor(life: Life): RecordStore {
    const scan = (query: ScanQuery) => this.#call(life, () => this.#scan(query));
    return {
      traits: {
        name: 'simulated',
        durability: 'replicated',
        maxRecordBytes: 1_048_576,
        firstRevisionOfLife: null,
      },
      read: (id) => this.#call(life, () => this.#records.get(nameOf(id)) ?? null),
      swap: (id, expected, next) => this.#call(life, () => this.#swap(id, expected, next)),
      insertAll: (records) => this.#call(life, () => this.#insertAll(records)),
      async *scan(query) {
        yield* await scan(query);
      },
      count: () =>
        this.#call(life, () => ({
          pending: this.inState('pending').length,
          committed: this.inState('committed').length,
          rejected: this.inState('rejected').length,
          in_doubt: this.inState('in_doubt').length,
        })),
      close: async () => {},
    };
  }

  async #call<T>(life: Life, work: () => T): Promise<T> {
    const { faults } = this;
    await this.#time.sleep(this.#dice.between(0, 3));
    if (!life.alive) return never();
    if (faults.down || this.#dice.chance(faults.requestLost)) return this.#noReply();
    const result = work();
    await this.#time.sleep(this.#dice.between(0, 3));
    if (!life.alive) return never();
    return this.#dice.chance(faults.replyLost) ? this.#noReply() : result;
  }

  /** The caller gets an error at once, or no answer at all. */
  #noReply(): Promise<never> {
    return this.#dice.chance(0.5)
      ? Promise.reject(new StoreError('ONCE_STORE_UNAVAILABLE', 'the connection broke'))
      : never();
  }

  #swap(id: OperationId, expected: Revision | null, next: NextRecord | null): SwapResult {
    const name = nameOf(id);
    const current = this.#records.get(name) ?? null;
    if ((current?.revision ?? null) !== expected) return { won: false, current };
    this.#revision += 1;
    if (next === null) this.#records.delete(name);
    else this.#records.set(name, { id, ...next, revision: this.#revision });
    return { won: true, revision: this.#revision };
  }

  #insertAll(
    records: Parameters<NonNullable<RecordStore['insertAll']>>[0],
  ): readonly Revision[] | null {
    if (records.some(({ id }) => this.#records.has(nameOf(id)))) return null;
    return records.map(({ id, next }) => {
      this.#swap(id, null, next);
      return this.#revision;
    });
  }

  #scan({ states, scope, dueBefore = Infinity, limit }: ScanQuery): ScannedRecord[] {
    const found: ScannedRecord[] = [];
    for (const record of this.#records.values()) {
      if (found.length >= limit) break;
      if (states !== undefined && !states.includes(record.state)) continue;
      if (scope !== undefined && record.id.scope !== scope) continue;
      if (dueBefore !== Infinity && (record.dueAt ?? Infinity) > dueBefore) continue;
      found.push(record);
    }
    return found;
  }
}

function nameOf({ scope, key }: OperationId): string {
  return `${scope} ${key}`;
}
