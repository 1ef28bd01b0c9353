import { readFileSync } from 'node:fs';
import { createClient } from '@redis/client';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../../scripts/services/index.ts';
import type { OperationId } from '../../engine/record.ts';
import type { NextRecord } from '../../engine/record-store.ts';
import { createOnceward } from '../../onceward.ts';
import { openRedisStore, type RedisStore } from './index.ts';

let server: RedisServer;
let admin: ReturnType<typeof createClient>;
const opened: RedisStore[] = [];

beforeAll(async () => {
  server = await startRedis({ appendfsync: 'always' });
});
afterAll(() => server.dispose());
beforeEach(async () => {
  admin = createClient({ url: server.url });
  await admin.connect();
});
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  await admin.close();
});

async function openStore(): Promise<RedisStore> {
  const store = await openRedisStore({ url: server.url });
  opened.push(store);
  return store;
}

function urlOf(username: string, password: string): string {
  return Object.assign(new URL(server.url), { username, password }).href;
}

function record(state: NextRecord['state'], dueInMs: number | null): NextRecord {
  const dueAt = dueInMs === null ? null : Date.now() + dueInMs;
  return { bytes: Buffer.from('record'), state, dueAt };
}

async function winner(swap: ReturnType<RedisStore['swap']>): Promise<number> {
  const result = await swap;
  if (!result.won) throw new Error('the swap was lost');
  return result.revision;
}

/** How often each command was called, those inside scripts included, since the last reset. */
async function commandCounts(): Promise<Record<string, number>> {
  const info = await admin.info('commandstats');
  const lines = [...info.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)];
  return Object.fromEntries(lines.map(([, name, calls]) => [name, Number(calls)]));
}

describe('what a sweep costs Redis', () => {
  it('[E11] a pass looks at a share of the keys, one command for many, and passes come by all of them', async () => {
    await admin.flushAll();
    const store = await openStore();
    const keys = Array.from({ length: 30_000 }, (_, at) => `${at}`);
    for (let from = 0; from < keys.length; from += 1_000) {
      const next = record('committed', 60_000);
      const swaps = keys
        .slice(from, from + 1_000)
        .map((key) => store.swap({ scope: 'kept', key }, null, next));
      await Promise.all(swaps);
    }
    for (let at = 0; at < 20; at += 1) {
      await winner(store.swap({ scope: 'due', key: `${at}` }, null, record('pending', -1)));
    }

    const found = new Set<string>();
    let calls = 0;
    for (let pass = 0; pass < 3; pass += 1) {
      await admin.configResetStat();
      for await (const { id } of store.scanDue(Date.now(), 1_000))
        found.add(`${id.scope} ${id.key}`);
      const counts = await commandCounts();
      calls += (counts.scan ?? 0) + (counts.eval ?? 0);
      // A page of SCAN may have a few keys more than it was asked for.
      expect(counts.getrange ?? 0).toBeLessThan(26_000);
    }
    expect(found.size).toBe(20);
    expect([...found].every((name) => name.startsWith('due '))).toBe(true);
    expect(calls).toBeLessThan(600);
    await admin.flushAll();
  });
});

describe('what a sweep costs Redis among keys of others', () => {
  it('[E11] a pass ends after its share of keys, also where none of them is a record', async () => {
    await admin.flushAll();
    const store = await openStore();
    for (let from = 0; from < 60_000; from += 1_000) {
      const pairs = Array.from(
        { length: 1_000 },
        (_, at) => [`foreign:${from + at}`, 'x'] as const,
      );
      await admin.mSet(pairs.map(([key, value]): [string, string] => [key, value]));
    }
    await admin.configResetStat();
    for await (const one of store.scanDue(Date.now(), 10)) throw new Error(`found ${one.id.key}`);
    // 25,000 keys at 250 a page.
    expect((await commandCounts()).scan).toBe(100);
    await admin.flushAll();
  });
});

describe('what an operation costs Redis', () => {
  it('a new operation costs two commands, and a replay in another process one', async () => {
    const [first, second] = [await openStore(), await openStore()];
    const [a, b] = [
      createOnceward({ store: first, sweep: false }),
      createOnceward({ store: second, sweep: false }),
    ];
    const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
    const run = (engine: typeof a, key: string) =>
      engine.once({ scope: 'cost', key, effect }, async () => 'done');
    // The first operation of a process reserves revisions for the next five hundred.
    await run(a, 'warm');
    await run(b, 'warm');
    await admin.configResetStat();
    for (let at = 0; at < 100; at += 1) await run(a, `new ${at}`);
    const fresh = await commandCounts();
    expect([fresh.set, fresh.evalsha, fresh.eval]).toEqual([200, 100, undefined]);
    // The rest happens inside the one script: a look at the revision, the write above, and no wake-up of nobody.
    expect([fresh.getrange, fresh.publish, fresh.get]).toEqual([100, undefined, undefined]);

    await admin.configResetStat();
    for (let at = 0; at < 100; at += 1) await run(b, `new ${at}`);
    const replayed = await commandCounts();
    expect(replayed.set).toBe(100);
    expect([replayed.evalsha, replayed.get]).toEqual([undefined, undefined]);

    await admin.configResetStat();
    for (let at = 0; at < 100; at += 1) await run(b, `new ${at}`);
    expect((await commandCounts()).set).toBeUndefined();
  });
});

describe('how long Redis keeps a record', () => {
  const ttl = (key: string) => admin.pTTL(`onceward:{4:time${key}}`);

  it('[E6] a claim and a doubt never expire', async () => {
    const store = await openStore();
    const claimed = { scope: 'time', key: 'claimed' };
    const revision = await winner(store.swap(claimed, null, record('pending', 1_000)));
    expect(await ttl('claimed')).toBe(-1);
    await winner(store.swap(claimed, revision, record('in_doubt', null)));
    expect(await ttl('claimed')).toBe(-1);
  });

  it('[E2] a settled record expires some time after it is due, and a later claim on it does not', async () => {
    const store = await openStore();
    const id = { scope: 'time', key: 'settled' };
    const claimed = await winner(store.swap(id, null, record('pending', 1_000)));
    const settled = await winner(store.swap(id, claimed, record('committed', 100_000)));
    // More than the longest call and the life of a block of revisions.
    expect(await ttl('settled')).toBeGreaterThan(100_000 + 110_000);
    expect(await ttl('settled')).toBeLessThanOrEqual(100_000 + 120_000);
    await winner(store.swap(id, settled, record('pending', 1_000)));
    expect(await ttl('settled')).toBe(-1);
  });

  it('a forgotten record leaves nothing behind for good', async () => {
    const store = await openStore();
    const id = { scope: 'time', key: 'forgotten' };
    const claimed = await winner(store.swap(id, null, record('pending', 1_000)));
    await winner(store.swap(id, claimed, null));
    expect(await ttl('forgotten')).toBeGreaterThan(110_000);
    expect(await ttl('forgotten')).toBeLessThanOrEqual(120_000);
  });
});

describe('revisions in Redis', () => {
  it('[E5] rise although another process holds a block that was reserved earlier', async () => {
    const [early, late] = [await openStore(), await openStore()];
    await winner(early.swap({ scope: 'rise', key: 'warm' }, null, record('pending', 1_000)));
    const id = { scope: 'rise', key: 'shared' };
    const claimed = await winner(late.swap(id, null, record('pending', 1_000)));
    const forgotten = await winner(late.swap(id, claimed, null));
    const again = await winner(early.swap(id, null, record('pending', 1_000)));
    expect(again).toBeGreaterThan(forgotten);
    const other = { scope: 'rise', key: 'taken over' };
    const theirs = await winner(late.swap(other, null, record('pending', 1_000)));
    const ours = await winner(early.swap(other, theirs, record('pending', 1_000)));
    expect(ours).toBeGreaterThan(theirs);
  });

  it('[E5] rise although the server has lost everything', async () => {
    const before = await openStore();
    const id = { scope: 'rise', key: 'lost' };
    const revision = await winner(before.swap(id, null, record('pending', 1_000)));
    await admin.flushAll();
    const after = await openStore();
    expect(await winner(after.swap(id, null, record('pending', 1_000)))).toBeGreaterThan(revision);
  });
});

describe('a Redis that is not as it was', () => {
  it('settles although the server has forgotten the script', async () => {
    const store = await openStore();
    const id = { scope: 'odd', key: 'script' };
    const revision = await winner(store.swap(id, null, record('pending', 1_000)));
    await admin.scriptFlush();
    expect((await store.swap(id, revision, record('committed', 1_000))).won).toBe(true);
  });

  it('[E10] a key that holds something else is an error, never an absent record', async () => {
    const store = await openStore();
    const id = { scope: 'odd', key: 'junk' };
    await admin.set('onceward:{3:oddjunk}', 'junk');
    await expect(store.read(id)).rejects.toMatchObject({ code: 'ONCE_RECORD_UNREADABLE' });
    const claim = store.swap(id, null, record('pending', 1_000));
    await expect(claim).rejects.toMatchObject({ code: 'ONCE_RECORD_UNREADABLE', applied: 'no' });
    await admin.del('onceward:{3:oddjunk}');
    await admin.lPush('onceward:{3:oddjunk}', 'a list');
    await expect(store.read(id)).rejects.toMatchObject({ applied: 'no' });
    await admin.del('onceward:{3:oddjunk}');
  });

  it('[E1] claims together for a user who may not: the command is tried once', async () => {
    await admin.sendCommand('ACL SETUSER single on nopass ~* &* +@all -msetnx'.split(' '));
    await admin.sendCommand(['ACL', 'LOG', 'RESET']);
    const store = await openRedisStore({ url: urlOf('single', 'any') });
    opened.push(store);
    for (let round = 0; round < 20; round += 1) {
      const ids = ['a', 'b', 'c'].map((key) => ({ scope: 'single', key: `${key} ${round}` }));
      await Promise.all(ids.map((id) => winner(store.swap(id, null, record('pending', 1_000)))));
    }
    const refused = (await admin.sendCommand(['ACL', 'LOG'])) as unknown[];
    expect(refused).toHaveLength(1);
    expect(JSON.stringify(refused)).toContain('"count",1');
  });

  it('does all its work for a user who has the rights that the documents name, and no others', async () => {
    const page = readFileSync(new URL('../../../../../docs/stores.md', import.meta.url), 'utf8');
    const rights = /`(\+get [^`]+)`/.exec(page)?.[1] ?? '';
    const rules = `ACL SETUSER lean reset on >any ~lean:* &lean:* ${rights}`;
    await admin.sendCommand(rules.split(' '));
    const open = async () => {
      const store = await openRedisStore({ url: urlOf('lean', 'any'), prefix: 'lean:' });
      opened.push(store);
      return store;
    };
    const [store, other] = [await open(), await open()];
    expect(store.findings[0]).toMatchObject({ setting: 'CONFIG GET', limits: true });
    const ids = ['a', 'b', 'c'].map((key) => ({ scope: 'lean', key }));
    const claim = record('pending', -1_000);
    const revisions = await Promise.all(ids.map((id) => winner(store.swap(id, null, claim))));
    const [id, revision] = [ids[0]!, revisions[0]!];
    const woken = other.changed!(id, revision, new AbortController().signal);
    // The bit that says that somebody waits.
    const head = async () => (await admin.getRange('lean:{4:leana}', 0, 0))?.charCodeAt(0) ?? 0;
    await expect.poll(async () => (await head()) & 32).toBe(32);
    let due = 0;
    for await (const _claim of store.scanDue(Date.now(), 10)) due += 1;
    expect(due).toBe(3);
    await winner(store.swap(id, revision, record('committed', 60_000)));
    await woken;
    expect(await store.count()).toMatchObject({ pending: 2, committed: 1 });
  });

  it('settles for a user who may not publish', async () => {
    await admin.sendCommand('ACL SETUSER mute on nopass ~* +@all resetchannels'.split(' '));
    const store = await openRedisStore({ url: urlOf('mute', 'any') });
    opened.push(store);
    const id = { scope: 'odd', key: 'mute' };
    const revision = await winner(store.swap(id, null, record('pending', 1_000)));
    const settled = await winner(store.swap(id, revision, record('committed', 1_000)));
    expect((await store.read(id))?.revision).toBe(settled);
  });

  it.each([
    ['a URL', () => ({ url: server.url })],
    ['@redis/client', () => ({ client: createClient({ url: server.url }) })],
    ['ioredis', () => ({ client: new Redis(server.port, '127.0.0.1', { lazyConnect: true }) })],
  ] as const)(
    '[E5] swaps that come together share one command, and each is decided on its own, through %s',
    async (name, source) => {
      const store = await openRedisStore({ ...source(), prefix: `${name}:` });
      opened.push(store);
      const ids = Array.from({ length: 300 }, (_, at) => ({ scope: 'together', key: `key ${at}` }));
      const claim = (id: (typeof ids)[0]) => winner(store.swap(id, null, record('pending', 1_000)));
      await admin.configResetStat();
      const revisions = await Promise.all(ids.map(claim));
      const claimed = await commandCounts();
      expect(claimed.msetnx).toBeLessThanOrEqual(3);
      expect(claimed.evalsha).toBeUndefined();
      await admin.del(`${name}:{8:togetherkey 7}`);
      await admin.lPush(`${name}:{8:togetherkey 7}`, 'a list');
      await admin.del(`${name}:{8:togetherkey 8}`);
      await admin.configResetStat();
      const settle = (id: (typeof ids)[0], at: number) => {
        const seen = (revisions[at] as number) + (at === 9 ? 1 : 0);
        return store.swap(id, seen, record('committed', 1_000)).catch((error: unknown) => error);
      };
      const results = await Promise.all(ids.map(settle));
      expect((await commandCounts()).evalsha).toBeLessThanOrEqual(3);
      expect(results[7]).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
      expect(results[8]).toEqual({ won: false, current: null });
      expect(results[9]).toMatchObject({ won: false, current: { revision: revisions[9] } });
      const others = results.filter((_, at) => at < 7 || at > 9);
      expect(others.every((result) => (result as { won?: boolean }).won === true)).toBe(true);
    },
  );

  it('[E5] claims that come together are each decided on their own', async () => {
    const store = await openStore();
    const ids = Array.from({ length: 5 }, (_, at) => ({ scope: 'claims', key: `key ${at}` }));
    const [taken, forgotten, junk, list] = ids as [
      OperationId,
      OperationId,
      OperationId,
      OperationId,
    ];
    const claim = (id: OperationId) => store.swap(id, null, record('pending', 1_000));
    const theirs = await winner(claim(taken));
    const mark = await winner(store.swap(forgotten, await winner(claim(forgotten)), null));
    await admin.set(`onceward:{6:claims${junk.key}}`, 'junk');
    await admin.lPush(`onceward:{6:claims${list.key}}`, 'a list');
    await admin.configResetStat();
    const results = await Promise.all(ids.map((id) => claim(id).catch((error: unknown) => error)));
    // One for all of them, and one over the mark of what was forgotten.
    expect((await commandCounts()).evalsha).toBe(2);
    expect(results[0]).toMatchObject({ won: false, current: { revision: theirs } });
    expect(results[1]).toMatchObject({ won: true });
    expect((results[1] as { revision: number }).revision).toBeGreaterThan(mark);
    expect(results[2]).toMatchObject({ code: 'ONCE_RECORD_UNREADABLE', applied: 'no' });
    expect(results[3]).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    expect(results[4]).toMatchObject({ won: true });
    await admin.del([junk, list].map(({ key }) => `onceward:{6:claims${key}}`));
  });

  it('large records do not travel together', async () => {
    const store = await openStore();
    const ids = Array.from({ length: 6 }, (_, at) => ({ scope: 'large', key: `key ${at}` }));
    const revisions = await Promise.all(
      ids.map((id) => winner(store.swap(id, null, record('pending', 1_000)))),
    );
    await admin.configResetStat();
    const bytes = Buffer.alloc(400_000, 7);
    const settle = (id: (typeof ids)[0], at: number) =>
      winner(store.swap(id, revisions[at] as number, { bytes, state: 'committed', dueAt: null }));
    await Promise.all(ids.map(settle));
    expect((await commandCounts()).evalsha).toBe(3);
  });

  it('[E4] wakes a waiter of another process', async () => {
    const [one, other] = [await openStore(), await openStore()];
    const id = { scope: 'odd', key: 'awaited' };
    const revision = await winner(one.swap(id, null, record('pending', 1_000)));
    const limit = AbortSignal.timeout(15_000);
    const woken = other.changed?.(id, revision, limit);
    expect(woken).toBeDefined();
    await new Promise((resolve) => setTimeout(resolve, 200));
    await winner(one.swap(id, revision, record('committed', 1_000)));
    await woken;
    expect(limit.aborted).toBe(false);
  });
});

describe('what Redis promises', () => {
  it.each([
    [{ appendfsync: 'always' }, 'machine', null],
    [{ appendfsync: 'everysec' }, 'none', 'appendfsync'],
    [{ appendfsync: 'no' }, 'none', 'appendonly'],
    [
      { appendfsync: 'always', maxmemory: '50mb', maxmemoryPolicy: 'allkeys-lru' },
      'none',
      'maxmemory-policy',
    ],
  ] as const)('with %o is %s', async (options, durability, limitedBy) => {
    const other = await startRedis(options);
    const { url } = other;
    const store = await openRedisStore({ url });
    expect(store.traits.durability).toBe(durability);
    const limiting = store.findings.filter((one) => one.limits).map((one) => one.setting);
    if (limitedBy !== null) {
      expect(limiting).toContain(limitedBy);
      const wish = openRedisStore({ url, durability: 'machine' });
      await expect(wish).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG' });
    }
    await store.close();
    await other.dispose();
  });
});

describe('a client of ioredis', () => {
  it('lends its address, but no setting that would change what is asked or answered', async () => {
    const client = new Redis(server.url, {
      lazyConnect: true,
      keyPrefix: 'mine:',
      stringNumbers: true,
      enableAutoPipelining: true,
    });
    const store = await openRedisStore({ client });
    opened.push(store);
    const id = { scope: 'lent', key: 'k' };
    const claimed = await winner(store.swap(id, null, record('pending', 1_000)));
    await winner(store.swap(id, claimed, record('committed', 1_000)));
    const found = [];
    for await (const one of store.scan({ scope: 'lent', limit: 9 })) found.push(one.id);
    expect(found).toEqual([id]);
    client.disconnect();
  });
});
