import type { RecordState } from '../../engine/record.ts';
import type { ScannedRecord, ScanQuery, StoreCount } from '../../engine/record-store.ts';
import { HEADS } from './heads.lua.ts';
import type { Reply } from './redis-driver.ts';
import type { RedisLink } from './redis-link.ts';
import type { RedisServers } from './redis-servers.ts';
import { decodeValue, HEAD_BYTES, idOf, patternOf, type StoredValue } from './stored-value.ts';

/** How many keys one SCAN visits: well under a millisecond of the server's time. */
export const PAGE = 250;

/**
 * Walks the keyspace page by page. There is no index on purpose: keeping one would add commands to every operation,
 * while only the sweeper and the console ever scan, and settled records leave on their own.
 */
export async function* scanRecords(
  servers: RedisServers,
  prefix: string,
  query: ScanQuery,
): AsyncGenerator<ScannedRecord> {
  yield* recordsIn(scanHeads(servers, prefix, query.scope), prefix, query);
}

/** The records of these pages that the query asks for. */
export async function* recordsIn(
  pages: AsyncIterable<Page>,
  prefix: string,
  query: ScanQuery,
): AsyncGenerator<ScannedRecord> {
  if (query.limit <= 0) return;
  // SCAN may show a key twice while the table grows.
  const given = new Set<string>();
  for await (const [link, heads] of pages) {
    const wanted = heads.filter(([key, head]) => !given.has(key) && fits(head, query));
    const values = await Promise.all(wanted.map(([key]) => link.call('GET', key)));
    for (const [at, reply] of values.entries()) {
      const key = wanted[at]?.[0] as string;
      const id = idOf(prefix, key);
      if (!Buffer.isBuffer(reply) || id === null) continue;
      const value = decodeValue(reply);
      if (value.state === null || !fits(value, query)) continue;
      given.add(key);
      yield { ...value, id, state: value.state };
      if (given.size >= query.limit) return;
    }
  }
}

export async function countRecords(servers: RedisServers, prefix: string): Promise<StoreCount> {
  const counts: Record<RecordState, number> = {
    pending: 0,
    committed: 0,
    rejected: 0,
    in_doubt: 0,
  };
  for await (const [, heads] of scanHeads(servers, prefix, undefined)) {
    for (const [, head] of heads) if (head.state !== null) counts[head.state] += 1;
  }
  return counts;
}

/** A part of the keyspace: where it is, and its keys with what stands before their bytes. */
export type Page = readonly [link: RedisLink, heads: readonly Head[]];

type Head = readonly [key: string, head: StoredValue];

/** Server by server and page by page. */
export async function* scanHeads(
  servers: RedisServers,
  prefix: string,
  scope: string | undefined,
): AsyncGenerator<Page> {
  for (const link of await servers.masters()) {
    const read = servers.clustered ? readEachHead : readHeads;
    for await (const heads of scanHeadsOf(link, prefix, scope, read)) yield [link, heads];
  }
}

type ReadHeads = (link: RedisLink, keys: readonly string[]) => Promise<readonly Reply[]>;

/** In one command for all of them. */
async function readHeads(link: RedisLink, keys: readonly string[]): Promise<readonly Reply[]> {
  if (keys.length === 0) return [];
  const last = String(HEAD_BYTES - 1);
  return (await link.call('EVAL', HEADS, String(keys.length), ...keys, last)) as Reply[];
}

/** Keys of a cluster cannot travel together, even where they live together. */
function readEachHead(link: RedisLink, keys: readonly string[]): Promise<readonly Reply[]> {
  const last = String(HEAD_BYTES - 1);
  return Promise.all(keys.map((key) => link.call('GETRANGE', key, '0', last)));
}

async function* scanHeadsOf(
  link: RedisLink,
  prefix: string,
  scope: string | undefined,
  readAll: ReadHeads,
): AsyncGenerator<Head[]> {
  const pattern = patternOf(prefix, scope);
  let cursor = '0';
  do {
    const page = (await link.call(
      'SCAN',
      cursor,
      'MATCH',
      pattern,
      'COUNT',
      String(PAGE),
    )) as Reply[];
    cursor = String(page[0]);
    const keys = (page[1] as Reply[]).map(String);
    const heads = await readAll(link, keys);
    // A key that left between the two commands has an empty head.
    yield heads.flatMap((head, at) =>
      Buffer.isBuffer(head) && head.length > 0
        ? [[keys[at] as string, decodeValue(head)] as Head]
        : [],
    );
  } while (cursor !== '0');
}

function fits(value: StoredValue, query: ScanQuery): boolean {
  if (value.state === null) return false;
  if (query.states !== undefined && !query.states.includes(value.state)) return false;
  return query.dueBefore === undefined || (value.dueAt !== null && value.dueAt <= query.dueBefore);
}
