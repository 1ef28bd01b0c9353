import { describe, expect, it } from 'vitest';
import type { OperationId, Revision } from '../engine/record.ts';
import type {
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  SwapResult,
} from '../engine/record-store.ts';
import { MIB } from '../engine/units.ts';
import { checkConcurrentHistories, checkSequentialHistories } from './store-histories.ts';

/**
 * The laws of `RecordStore`, for any adapter, on its real backend. Needs `vitest` and `fast-check`.
 *
 * ```ts
 * storeSuite({
 *   name: 'redis',
 *   async open() {
 *     const server = await startRedis();
 *     const store = await redisStore({ client: await connect(server) });
 *     return { store, close: async () => { await store.close(); await server.stop(); } };
 *   },
 * });
 * ```
 */
export interface StoreSuiteOptions {
  readonly name: string;
  /** Opens a store that holds nothing. Called for each law. */
  open(): Promise<OpenedStore>;
  /** Laws that this store cannot keep, each with the reason, which is printed. */
  readonly skip?: Readonly<Partial<Record<StoreLaw, string>>>;
  /** How many random histories are tried; 50 unless told. */
  readonly histories?: number;
  /** For each law; 20 s unless told. */
  readonly timeoutMs?: number;
}

export interface OpenedStore {
  readonly store: RecordStore;
  /** Closes the store and opens it again on the same data. Absent: nothing outlives a close. */
  reopen?(): Promise<RecordStore>;
  /** Ends whoever holds the store without warning, and opens it again on the same data. */
  kill?(): Promise<RecordStore>;
  /** Closes the store, also one that was opened again, and removes its data. */
  close(): Promise<void>;
}

export type StoreLaw = keyof typeof LAWS;

const LAWS = {
  'one-winner': {
    title: '[E1] of many concurrent swaps one wins and the others see it',
    check: oneWinner,
  },
  'stale-loses': {
    title: '[E5] a swap with a stale expectation loses and changes nothing',
    check: staleLoses,
  },
  'revisions-rise': {
    title: '[E5] a revision rises with every swap, also after forgetting',
    check: revisionsRise,
  },
  'bytes-unchanged': {
    title: '[E2] bytes come back unchanged, from none to 1 MiB',
    check: bytesUnchanged,
  },
  'too-large': {
    title: '[E2] a record over the limit is refused and leaves no trace',
    check: tooLarge,
  },
  'own-writes': { title: '[E2] a swap is seen by every read after it', check: ownWrites },
  forgetting: {
    title: '[E11] a forgotten record is absent and can be claimed again',
    check: forgetting,
  },
  'scopes-apart': {
    title: '[E9] no two ids share a record, however alike they look',
    check: scopesApart,
  },
  'scan-filters': {
    title: '[E11] a scan keeps to states, scope, due time and limit',
    check: scanFilters,
  },
  counting: { title: '[E11] the count follows every change of state', check: counting },
  'forget-due': {
    title: '[E11] forgetDue takes settled records that are due, up to the limit',
    check: forgetDue,
  },
  'changed-wakes': {
    title: '[E4] changed settles when the record changes, or at once',
    check: changedWakes,
  },
  'sequential-histories': {
    title: '[E1] random histories agree with a model',
    check: sequentialHistories,
  },
  'concurrent-histories': {
    title: '[E1] random concurrent swaps form one chain per record',
    check: concurrentHistories,
  },
  'survives-reopen': {
    title: '[E2] what was acknowledged survives a close',
    check: survivesReopen,
  },
  'survives-kill': { title: '[E2] what was acknowledged survives a kill', check: survivesKill },
  'closed-refuses': {
    title: '[E12] a closed store refuses with a coded error',
    check: closedRefuses,
  },
} as const satisfies Record<string, { title: string; check: Law }>;

type Law = (opened: OpenedStore, options: StoreSuiteOptions) => Promise<void>;

export function storeSuite(options: StoreSuiteOptions): void {
  const { name, skip = {}, timeoutMs = 20_000 } = options;
  describe(`store laws: ${name}`, () => {
    for (const [law, { title, check }] of Object.entries(LAWS)) {
      const reason = skip[law as StoreLaw];
      if (reason !== undefined) {
        it.skip(`${title} (skipped: ${reason})`);
        continue;
      }
      it(title, { timeout: timeoutMs }, async () => {
        const opened = await options.open();
        try {
          await check(opened, options);
        } finally {
          await opened.close();
        }
      });
    }
  });
}

const NOW = 1_800_000_000_000;
const ID: OperationId = { scope: 'tenant-1', key: 'order-1' };

function record(text: string | Uint8Array, change: Partial<NextRecord> = {}): NextRecord {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  return { bytes, state: 'pending', dueAt: NOW, ...change };
}

async function win(swap: Promise<SwapResult>): Promise<Revision> {
  const result = await swap;
  if (!result.won) throw new Error('The swap was expected to win, and lost.');
  return result.revision;
}

async function textAt(store: RecordStore, id: OperationId): Promise<string | null> {
  const stored = await store.read(id);
  return stored && new TextDecoder().decode(stored.bytes);
}

async function collect(store: RecordStore, query: ScanQuery): Promise<ScannedRecord[]> {
  const found: ScannedRecord[] = [];
  for await (const one of store.scan(query)) found.push(one);
  return found;
}

async function oneWinner({ store }: OpenedStore): Promise<void> {
  for (let round = 0; round < 5; round++) {
    const id = { scope: 'race', key: `round-${round}` };
    let expected: Revision | null = null;
    // First all claim what is absent, then all try to replace the winner.
    for (let turn = 0; turn < 3; turn++) {
      const texts = Array.from({ length: 32 }, (_, index) => `turn ${turn} attempt ${index}`);
      const results = await Promise.all(
        texts.map((text) => store.swap(id, expected, record(text))),
      );
      const winners = results.filter((result) => result.won);
      expect(winners).toHaveLength(1);
      const revision = winners[0]?.won ? winners[0].revision : 0;
      const winningText = texts[results.findIndex((result) => result.won)];
      for (const result of results) {
        if (result.won) continue;
        expect(result.current?.revision).toBe(revision);
        expect(new TextDecoder().decode(result.current?.bytes)).toBe(winningText);
      }
      expect(await textAt(store, id)).toBe(winningText);
      expected = revision;
    }
  }
}

async function staleLoses({ store }: OpenedStore): Promise<void> {
  const first = await win(store.swap(ID, null, record('first')));
  const second = await win(store.swap(ID, first, record('second')));
  for (const stale of [first, null, second + 1]) {
    for (const next of [record('late'), null]) {
      const result = await store.swap(ID, stale, next);
      expect(result).toMatchObject({ won: false, current: { revision: second } });
    }
  }
  expect(await textAt(store, ID)).toBe('second');
  const absent = { ...ID, key: 'absent' };
  expect(await store.swap(absent, first, record('late'))).toEqual({ won: false, current: null });
  expect(await store.read(absent)).toBeNull();
}

async function revisionsRise(opened: OpenedStore): Promise<void> {
  let { store } = opened;
  const issued: Revision[] = [];
  const passThrough = async (key: string) => {
    const id = { scope: 'rising', key };
    const claimed = await win(store.swap(id, null, record('claimed')));
    const settled = await win(store.swap(id, claimed, record('settled', { state: 'committed' })));
    const forgotten = await win(store.swap(id, settled, null));
    issued.push(claimed, settled, forgotten);
  };
  for (let round = 0; round < 5; round++) await passThrough('same');
  await passThrough('other');
  if (opened.reopen) {
    for (let life = 0; life < 3; life++) {
      store = await opened.reopen();
      const { firstRevisionOfLife } = store.traits;
      if (firstRevisionOfLife !== null) {
        expect(firstRevisionOfLife).toBeGreaterThan(issued.at(-1) as Revision);
      }
      await passThrough('same');
    }
  }
  for (const [index, revision] of issued.entries()) {
    expect(Number.isSafeInteger(revision)).toBe(true);
    expect(revision).toBeGreaterThan(issued[index - 1] ?? 0);
  }
}

async function bytesUnchanged({ store }: OpenedStore): Promise<void> {
  const every = Uint8Array.from({ length: 256 }, (_, index) => index);
  const large = Uint8Array.from({ length: 1 * MIB }, (_, index) => (index * 31) & 0xff);
  const room = store.traits.maxRecordBytes;
  for (const [index, bytes] of [new Uint8Array(0), every, every.subarray(7, 9), large].entries()) {
    if (bytes.length > room) continue;
    const id = { scope: 'bytes', key: `${index}` };
    const given = Uint8Array.from(bytes);
    const pending = store.swap(id, null, record(given));
    const revision = await win(pending);
    const stored = await store.read(id);
    expect(stored?.revision).toBe(revision);
    expect(Buffer.compare(Buffer.from(stored?.bytes ?? 'absent'), Buffer.from(bytes))).toBe(0);
  }
}

async function tooLarge({ store }: OpenedStore): Promise<void> {
  const bytes = new Uint8Array(store.traits.maxRecordBytes + 1);
  const refusal = { code: 'ONCE_TOO_LARGE', applied: 'no' };
  await expect(store.swap(ID, null, record(bytes))).rejects.toMatchObject(refusal);
  expect(await store.read(ID)).toBeNull();
  const revision = await win(store.swap(ID, null, record('small')));
  await expect(store.swap(ID, revision, record(bytes))).rejects.toMatchObject(refusal);
  expect(await textAt(store, ID)).toBe('small');
  const most = record(bytes.subarray(1), { state: 'committed' });
  expect((await store.swap(ID, revision, most)).won).toBe(true);
}

async function ownWrites({ store }: OpenedStore): Promise<void> {
  let revision: Revision | null = null;
  for (let index = 0; index < 50; index++) {
    revision = await win(store.swap(ID, revision, record(`write ${index}`)));
    expect(await store.read(ID)).toMatchObject({ revision });
    expect(await textAt(store, ID)).toBe(`write ${index}`);
  }
}

async function forgetting({ store }: OpenedStore): Promise<void> {
  const first = await win(store.swap(ID, null, record('first')));
  await win(store.swap(ID, first, null));
  expect(await store.read(ID)).toBeNull();
  expect(await store.swap(ID, first, record('late'))).toEqual({ won: false, current: null });
  const again = await win(store.swap(ID, null, record('again')));
  expect(await textAt(store, ID)).toBe('again');
  expect((await store.swap(ID, first, null)).won).toBe(false);
  expect(await store.read(ID)).toMatchObject({ revision: again });
}

/** A store may refuse an id that it cannot hold; it must not confuse it with another. */
async function scopesApart({ store }: OpenedStore): Promise<void> {
  const ids: OperationId[] = [
    ['a', 'b:c'],
    ['a:b', 'c'],
    ['a', 'b\u0000c'],
    ['a\u0000b', 'c'],
    ['ab', 'c'],
    ['a', 'bc'],
    ['A', 'bc'],
    ['a', 'bc '],
    ['', 'abc'],
    ['abc', ''],
    ['é', 'k'],
    ['e\u0301', 'k'],
    ['s', '😀'],
    ['s', '\ud83d'],
    ['s', '\ude00'],
    ['s', '\ufffd'],
    ['s%', "k'; --"],
    ['x'.repeat(1_024), 'y'.repeat(1_024)],
    ['x'.repeat(1_024), `${'y'.repeat(1_023)}z`],
    [`${'x'.repeat(1_023)}z`, 'y'.repeat(1_024)],
  ].map(([scope = '', key = '']) => ({ scope, key }));
  const held = new Map<OperationId, Revision>();
  for (const [index, id] of ids.entries()) {
    try {
      held.set(id, await win(store.swap(id, null, record(`record ${index}`))));
    } catch (error) {
      expect(error).toMatchObject({ code: 'ONCE_INVALID_INPUT' });
    }
  }
  expect(held.size).toBeGreaterThan(ids.length / 2);
  for (const [index, id] of ids.entries()) {
    if (held.has(id)) expect(await textAt(store, id)).toBe(`record ${index}`);
  }
  const scanned = await collect(store, { limit: 100 });
  expect(scanned).toHaveLength(held.size);
  for (const { id, revision } of scanned) {
    const original = [...held].find(([, known]) => known === revision)?.[0];
    expect(id).toEqual(original);
  }
  const inScope = await collect(store, { scope: 'a', limit: 100 });
  expect(inScope.every(({ id }) => id.scope === 'a')).toBe(true);
  expect(inScope).toHaveLength([...held.keys()].filter(({ scope }) => scope === 'a').length);
}

async function scanFilters({ store }: OpenedStore): Promise<void> {
  const states = ['pending', 'committed', 'rejected', 'in_doubt'] as const;
  for (const scope of ['one', 'two']) {
    for (const state of states) {
      for (const dueAt of [NOW, NOW + 1, null]) {
        const id = { scope, key: `${state} ${dueAt}` };
        await win(store.swap(id, null, record(id.key, { state, dueAt })));
      }
    }
  }
  const keys = async (query: Partial<ScanQuery>) => {
    const found = await collect(store, { limit: 100, ...query });
    for (const { id, state, dueAt, bytes } of found) {
      expect(new TextDecoder().decode(bytes)).toBe(id.key);
      expect(`${state} ${dueAt}`).toBe(id.key);
    }
    return found.length;
  };
  expect(await keys({})).toBe(24);
  expect(await keys({ states: ['pending'] })).toBe(6);
  expect(await keys({ states: ['committed', 'rejected'] })).toBe(12);
  expect(await keys({ states: [] })).toBe(0);
  expect(await keys({ scope: 'one' })).toBe(12);
  expect(await keys({ scope: 'on' })).toBe(0);
  expect(await keys({ dueBefore: NOW })).toBe(8);
  expect(await keys({ dueBefore: NOW - 1 })).toBe(0);
  expect(await keys({ scope: 'two', states: ['in_doubt'], dueBefore: NOW + 1 })).toBe(2);
  expect(await keys({ limit: 7 })).toBe(7);
  expect(await keys({ limit: 0 })).toBe(0);
}

async function counting({ store }: OpenedStore): Promise<void> {
  const none = { pending: 0, committed: 0, rejected: 0, in_doubt: 0 };
  expect(await store.count()).toEqual(none);
  const other = { ...ID, key: 'other' };
  const first = await win(store.swap(ID, null, record('a')));
  await win(store.swap(other, null, record('b', { state: 'in_doubt', dueAt: null })));
  expect(await store.count()).toEqual({ ...none, pending: 1, in_doubt: 1 });
  const second = await win(store.swap(ID, first, record('a', { state: 'rejected' })));
  expect(await store.count()).toEqual({ ...none, rejected: 1, in_doubt: 1 });
  await store.swap(ID, first, record('late'));
  await win(store.swap(ID, second, null));
  expect(await store.count()).toEqual({ ...none, in_doubt: 1 });
}

async function forgetDue({ store }: OpenedStore): Promise<void> {
  if (!store.forgetDue) return;
  for (let index = 0; index < 10; index++) {
    const state = index % 2 === 0 ? 'committed' : 'rejected';
    await win(store.swap({ scope: 'due', key: `${index}` }, null, record('x', { state })));
  }
  for (const state of ['pending', 'in_doubt'] as const) {
    await win(store.swap({ scope: 'kept', key: state }, null, record('x', { state })));
  }
  for (const dueAt of [NOW + 1, null]) {
    const next = record('x', { state: 'committed', dueAt });
    await win(store.swap({ scope: 'kept', key: `${dueAt}` }, null, next));
  }
  expect(await store.forgetDue(NOW - 1, 100)).toBe(0);
  expect(await store.forgetDue(NOW, 4)).toBe(4);
  expect(await store.forgetDue(NOW, 100)).toBe(6);
  expect(await store.forgetDue(NOW, 100)).toBe(0);
  expect(await collect(store, { limit: 100, scope: 'due' })).toEqual([]);
  expect(await collect(store, { limit: 100, scope: 'kept' })).toHaveLength(4);
}

async function changedWakes({ store }: OpenedStore): Promise<void> {
  if (!store.changed) return;
  const { signal } = new AbortController();
  const first = await win(store.swap(ID, null, record('first')));
  const waits = [1, 2, 3].map(() => store.changed?.(ID, first, signal));
  const second = await win(store.swap(ID, first, record('second', { state: 'committed' })));
  await Promise.all(waits);
  await store.changed(ID, first, signal);
  const untilForgotten = store.changed(ID, second, signal);
  await win(store.swap(ID, second, null));
  await untilForgotten;
  const again = await win(store.swap(ID, null, record('again')));
  const controller = new AbortController();
  const aborted = store.changed(ID, again, controller.signal);
  controller.abort();
  await aborted.catch(() => undefined);
}

async function sequentialHistories({ store }: OpenedStore, options: StoreSuiteOptions) {
  await checkSequentialHistories(store, options.histories ?? 50);
}

async function concurrentHistories({ store }: OpenedStore, options: StoreSuiteOptions) {
  await checkConcurrentHistories(store, options.histories ?? 50);
}

async function survivesReopen(opened: OpenedStore): Promise<void> {
  if (opened.store.traits.durability !== 'none') await surviveLives(opened, opened.reopen);
}

async function survivesKill(opened: OpenedStore): Promise<void> {
  if (opened.store.traits.durability !== 'none') await surviveLives(opened, opened.kill);
}

async function surviveLives(
  opened: OpenedStore,
  again: (() => Promise<RecordStore>) | undefined,
): Promise<void> {
  if (!again) throw new Error('A durable store must say how to open it again, or skip this law.');
  let { store } = opened;
  const expected = new Map<string, { revision: Revision; text: string }>();
  for (let life = 0; life < 3; life++) {
    for (let index = 0; index < 20; index++) {
      const key = `${life}-${index}`;
      const id = { scope: 'lives', key };
      const claimed = await win(store.swap(id, null, record('claimed')));
      if (index % 4 === 0) {
        expected.set(key, { revision: claimed, text: 'claimed' });
        continue;
      }
      const text = `settled ${key}`;
      const settled = await win(store.swap(id, claimed, record(text, { state: 'committed' })));
      if (index % 4 === 1) await win(store.swap(id, settled, null));
      else expected.set(key, { revision: settled, text });
    }
    const before = await store.count();
    store = await again.call(opened);
    expect(await store.count()).toEqual(before);
    const scanned = await collect(store, { limit: 1_000 });
    const found = scanned.map(({ id, revision, bytes }) => [
      id.key,
      { revision, text: new TextDecoder().decode(bytes) },
    ]);
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(expected));
    expect(await store.read({ scope: 'lives', key: `${life}-1` })).toBeNull();
  }
}

async function closedRefuses({ store }: OpenedStore): Promise<void> {
  await win(store.swap(ID, null, record('first')));
  await store.close();
  await store.close();
  const coded = { code: expect.stringMatching(/^ONCE_/) };
  await expect(store.read(ID)).rejects.toMatchObject(coded);
  await expect(store.swap(ID, null, record('late'))).rejects.toMatchObject(coded);
  await expect(store.count()).rejects.toMatchObject(coded);
}
