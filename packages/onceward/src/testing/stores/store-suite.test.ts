import { describe, expect, it } from 'vitest';
import type { OperationId, Revision } from '../../engine/record.ts';
import type { NextRecord, RecordStore } from '../../engine/record-store.ts';
import { memoryStore } from '../../stores/memory/index.ts';
import { STORE_LAWS } from './store-laws.ts';
import type { StoreLaw } from './store-suite.ts';

/** Stores with one fault each, made from one that has none. Each must be caught by the law that it breaks. */
type Change = (inner: RecordStore) => Partial<RecordStore>;

const tick = () => new Promise((resolve) => setImmediate(resolve));

const FAULTY: Readonly<Record<string, { readonly law: StoreLaw; readonly change: Change }>> = {
  'reads, then writes without a check': {
    law: 'one-winner',
    change: (inner) => ({
      async swap(id, expected, next) {
        const current = await inner.read(id);
        await tick();
        if ((current?.revision ?? null) !== expected) return { won: false, current };
        const now = await inner.read(id);
        return inner.swap(id, now?.revision ?? null, next);
      },
    }),
  },
  'hides the winner from the losers': {
    law: 'one-winner',
    change: (inner) => ({
      swap: async (...args) => {
        const result = await inner.swap(...args);
        return result.won ? result : { won: false, current: null };
      },
    }),
  },
  'forgets whatever the caller believes': {
    law: 'stale-loses',
    change: (inner) => ({
      async swap(id, expected, next) {
        const current = await inner.read(id);
        const believed = next === null ? (current?.revision ?? null) : expected;
        return inner.swap(id, believed, next);
      },
    }),
  },
  'counts revisions per record': {
    law: 'revisions-rise',
    change: (inner) => ({
      async swap(id, expected, next) {
        const result = await inner.swap(id, expected, next);
        return result.won && expected === null ? { won: true, revision: 1 } : result;
      },
    }),
  },
  'keeps text instead of bytes': {
    law: 'bytes-unchanged',
    change: (inner) => ({
      swap: (id, expected, next) => inner.swap(id, expected, next && throughText(next)),
    }),
  },
  'claims at once whatever is there': {
    law: 'swap-now',
    change: () => ({ swapNow: () => ({ won: true, revision: 1 }) }),
  },
  'cuts what is too large': {
    law: 'too-large',
    change: (inner) => ({
      swap: (id, expected, next) =>
        inner.swap(
          id,
          expected,
          next && { ...next, bytes: next.bytes.subarray(0, inner.traits.maxRecordBytes) },
        ),
    }),
  },
  'joins scope and key with a colon': {
    law: 'scopes-apart',
    change: (inner) => ({
      read: (id) => inner.read(joined(id)),
      swap: (id, expected, next) => inner.swap(joined(id), expected, next),
    }),
  },
  'ignores the limit of a sweep': {
    law: 'forget-due',
    change: (inner) => ({
      forgetDue: (now) => inner.forgetDue?.(now, 1_000) ?? Promise.resolve(0),
    }),
  },
  'sweeps what is not settled': {
    law: 'forget-due',
    change: (inner) => ({
      async forgetDue(now, limit) {
        let forgotten = 0;
        for await (const { id, revision } of inner.scan({ dueBefore: now, limit })) {
          await inner.swap(id, revision, null);
          forgotten++;
        }
        return forgotten;
      },
    }),
  },
  'looks for claims among the first records only': {
    law: 'scan-due',
    change: (inner) => ({
      async *scanDue(now) {
        for await (const one of inner.scan({ limit: 4 })) {
          if (one.state === 'pending' && one.dueAt !== null && one.dueAt <= now) yield one;
        }
      },
    }),
  },
  'gives claims that are not due': {
    law: 'scan-due',
    change: (inner) => ({ scanDue: (_now, limit) => inner.scan({ states: ['pending'], limit }) }),
  },
  'gives more claims than were asked for': {
    law: 'scan-due',
    change: (inner) => ({
      scanDue: (dueBefore) => inner.scan({ states: ['pending'], dueBefore, limit: 100 }),
    }),
  },
  'tells the time in seconds': {
    law: 'clock',
    change: () => ({ clock: async () => Math.floor(Date.now() / 1_000) }),
  },
  'has a clock that stands still': {
    law: 'clock',
    change: () => ({ clock: async () => 1_800_000_000_000 }),
  },
  'scans without a filter': {
    law: 'scan-filters',
    change: (inner) => ({ scan: ({ limit }) => inner.scan({ limit }) }),
  },
  'answers reads from a stale copy': {
    law: 'own-writes',
    change: (inner) => {
      const copies = new Map<string, Awaited<ReturnType<RecordStore['read']>>>();
      return {
        async read(id) {
          const copy = copies.get(id.key) ?? (await inner.read(id));
          copies.set(id.key, copy);
          return copy;
        },
      };
    },
  },
  'loses every hundredth write': {
    law: 'sequential-histories',
    change: (inner) => {
      let writes = 0;
      let revision = 2 ** 40;
      return {
        swap: async (id, expected, next) =>
          ++writes % 100 === 0
            ? { won: true, revision: ++revision }
            : inner.swap(id, expected, next),
      };
    },
  },
  'answers after it was closed': {
    law: 'closed-refuses',
    change: () => ({ close: async () => undefined }),
  },
};

function throughText(next: NextRecord): NextRecord {
  return { ...next, bytes: new TextEncoder().encode(new TextDecoder().decode(next.bytes)) };
}

function joined({ scope, key }: OperationId): OperationId {
  return { scope: '', key: `${scope}:${key}` };
}

function faulty(change: Change): RecordStore {
  const inner = memoryStore();
  const changed = change(inner);
  const original: RecordStore = {
    traits: inner.traits,
    read: (id) => inner.read(id),
    swap: (id, expected: Revision | null, next) => inner.swap(id, expected, next),
    scan: (query) => inner.scan(query),
    count: () => inner.count(),
    forgetDue: (now, limit) => inner.forgetDue?.(now, limit) ?? Promise.resolve(0),
    close: () => inner.close(),
  };
  return { ...original, ...changed };
}

describe('the store suite', () => {
  for (const [fault, { law, change }] of Object.entries(FAULTY)) {
    it(`[E1] finds a store that ${fault}, by the law ${law}`, async () => {
      const store = faulty(change);
      const opened = { store, close: () => store.close() };
      await expect(STORE_LAWS[law].check(opened, { histories: 500 })).rejects.toThrow();
    });
  }

  it('says why a law does not concern a store', async () => {
    const { forgetDue: _absent, ...store } = faulty(() => ({}));
    const opened = { store, close: () => store.close() };
    const { check } = STORE_LAWS['forget-due'];
    await expect(check(opened)).rejects.toThrow('the store leaves sweeping to scan and swap');
  });
});
