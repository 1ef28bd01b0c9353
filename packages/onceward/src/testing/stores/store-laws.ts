import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { OperationId, Revision } from '../../engine/record.ts';
import type { ScanQuery } from '../../engine/record-store.ts';
import { MIB } from '../../engine/units.ts';
import { checkConcurrentHistories, checkSequentialHistories } from './store-histories.ts';
import { DoesNotConcern, type Law, type OpenedStore } from './store-law.ts';
import { closedRefuses, revisionsRise, survivesKill, survivesReopen } from './store-lives.ts';
import { collect, collectFrom, ID, NOW, record, textAt, win } from './store-probe.ts';

/** Every law that a store obeys, by the name under which an adapter may skip it. */
export const STORE_LAWS = {
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
    title: '[E9] no two ids share a record, however similar they are',
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
  'scan-due': {
    title:
      '[E11] scanDue comes by every claim that is due, a few at each call, and by nothing else',
    check: scanDue,
  },
  clock: {
    title: '[E11] the clock of a store, where it has one, has milliseconds and advances',
    check: clock,
  },
  'insert-all': {
    title: '[E1] insertAll stores all records or none, and of many with one id in common one wins',
    check: insertAll,
  },
  'swap-now': {
    title: '[E1] a swap without a wait is the same swap, with the same refusals',
    check: swapNow,
  },
  'changed-wakes': {
    title: '[E4] changed settles when the record changes, or at once',
    check: changedWakes,
  },
  'sequential-histories': {
    title: '[E1] random histories agree with a model',
    check: ({ store }, { histories }) => checkSequentialHistories(store, histories),
  },
  'concurrent-histories': {
    title: '[E1] random concurrent swaps form one chain per record',
    check: ({ store }, { histories }) => checkConcurrentHistories(store, histories),
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
      // Not every view of bytes is a Uint8Array, and the codec of records reads no other.
      expect(ArrayBuffer.isView(bytes)).toBe(true);
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
  if (!store.forgetDue) throw new DoesNotConcern('the store leaves sweeping to scan and swap');
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

async function scanDue({ store }: OpenedStore): Promise<void> {
  if (!store.scanDue) throw new DoesNotConcern('the store finds what is due by a scan');
  const kept = [
    record('x', { dueAt: NOW + 1 }),
    record('x', { dueAt: null }),
    record('x', { state: 'in_doubt' }),
    record('x', { state: 'committed', dueAt: NOW + 1 }),
  ];
  for (const [at, next] of kept.entries()) {
    await win(store.swap({ scope: 'kept', key: `${at}` }, null, next));
  }
  const due = Array.from({ length: 9 }, (_, at) => `${at}`);
  for (const key of due) await win(store.swap({ scope: 'due', key }, null, record('x')));
  expect(await collectFrom(store.scanDue(NOW - 1, 100))).toEqual([]);
  expect(await collectFrom(store.scanDue(NOW, 0))).toEqual([]);
  const found = new Set<string>();
  for (let call = 0; call < 50 && found.size < due.length; call += 1) {
    const share = await collectFrom(store.scanDue(NOW, 2));
    expect(share.length).toBeLessThanOrEqual(2);
    for (const { id, revision } of share) {
      expect(id.scope).toBe('due');
      found.add(id.key);
      await win(store.swap(id, revision, null));
    }
  }
  expect([...found].sort()).toEqual(due);
  expect(await collectFrom(store.scanDue(NOW, 100))).toEqual([]);
}

async function clock({ store }: OpenedStore): Promise<void> {
  if (!store.clock) throw new DoesNotConcern('the store goes by the clock of its machine');
  const began = Date.now();
  const first = await store.clock();
  await sleep(1_100);
  const second = await store.clock();
  const tookMs = Date.now() - began;
  if (first === null || second === null) throw new Error('the clock cannot be read');
  // One that is given in seconds is read to the second.
  expect(second - first).toBeGreaterThanOrEqual(100);
  expect(second - first).toBeLessThanOrEqual(tookMs + 1_000);
  expect(Math.abs(first)).toBeGreaterThan(1e12);
}

async function insertAll({ store, reopen }: OpenedStore): Promise<void> {
  if (!store.insertAll) throw new DoesNotConcern('the store writes one record at a time');
  const insert = (keys: readonly string[], text: string) =>
    store.insertAll!(keys.map((key) => ({ id: { scope: 'all', key }, next: record(text) })));
  const none = { pending: 0, committed: 0, rejected: 0, in_doubt: 0 };

  const revisions = await insert(['a', 'b', 'c'], 'first');
  expect(revisions).toHaveLength(3);
  expect(await store.count()).toEqual({ ...none, pending: 3 });
  // Each is a record like any other: the revision that was given is the one to swap against.
  await win(store.swap({ scope: 'all', key: 'b' }, revisions?.[1] ?? null, record('swapped')));
  expect(await insert(['d', 'c'], 'second')).toBeNull();
  expect(await textAt(store, { scope: 'all', key: 'd' })).toBeNull();
  expect(await textAt(store, { scope: 'all', key: 'c' })).toBe('first');

  const large = record(new Uint8Array(store.traits.maxRecordBytes + 1));
  const refused = store.insertAll([
    { id: { scope: 'all', key: 'small' }, next: record('small') },
    { id: { scope: 'all', key: 'large' }, next: large },
  ]);
  await expect(refused).rejects.toMatchObject({ code: 'ONCE_TOO_LARGE', applied: 'no' });
  expect(await textAt(store, { scope: 'all', key: 'small' })).toBeNull();

  const rivals = await Promise.all(
    Array.from({ length: 32 }, (_, i) => insert([`own ${i}`, 'contested'], `rival ${i}`)),
  );
  expect(rivals.filter((won) => won !== null)).toHaveLength(1);
  expect(await store.count()).toEqual({ ...none, pending: 5 });
  if (reopen === undefined) return;
  const again = await reopen();
  const kept = await textAt(again, { scope: 'all', key: 'contested' });
  const winner = rivals.findIndex((won) => won !== null);
  expect(kept).toBe(`rival ${winner}`);
  expect(await textAt(again, { scope: 'all', key: `own ${winner}` })).toBe(kept);
}

async function swapNow({ store }: OpenedStore): Promise<void> {
  if (!store.swapNow) throw new DoesNotConcern('the store has to be waited for');
  const id = { scope: 'now', key: 'k' };
  const first = store.swapNow(id, null, record('first'));
  if (!first.won) throw new Error('a swap against nothing must win where nothing is');
  const lost = store.swapNow(id, null, record('late'));
  expect(lost).toMatchObject({ won: false, current: { revision: first.revision } });
  const second = await win(store.swap(id, first.revision, record('second')));
  expect(second).toBeGreaterThan(first.revision);
  expect(await textAt(store, id)).toBe('second');
  const large = record(new Uint8Array(store.traits.maxRecordBytes + 1));
  const tooLarge = expect.objectContaining({ code: 'ONCE_TOO_LARGE', applied: 'no' });
  expect(() => store.swapNow!(id, second, large)).toThrow(tooLarge);
  expect(store.swapNow(id, second, null).won).toBe(true);
  expect(await store.read(id)).toBeNull();
  await store.close();
  expect(() => store.swapNow!(id, null, record('closed'))).toThrow(
    expect.objectContaining({ applied: 'no' }),
  );
}

async function changedWakes({ store }: OpenedStore): Promise<void> {
  if (!store.changed) throw new DoesNotConcern('the store leaves waiters to poll');
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
