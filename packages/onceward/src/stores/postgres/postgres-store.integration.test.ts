import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../../scripts/services/index.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import {
  byteaArray,
  int2Array,
  int4Array,
  int8Array,
  textArray,
  uuidArray,
} from './binary-arrays.ts';
import { openPostgresStore } from './index.ts';
import { uuidText } from './record-rows.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.dispose());

/** The schema is removed rather than the database: making a database costs more than all laws together. */
async function removeSchema(): Promise<void> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query('drop schema if exists onceward cascade');
  await client.end();
}

storeSuite({
  name: 'postgres',
  timeoutMs: 60_000,
  async open() {
    await removeSchema();
    let pool: pg.Pool;
    const openStore = () => {
      pool = new pg.Pool({ connectionString: server.url });
      // Idle connections break when the server is killed.
      pool.on('error', () => {});
      return openPostgresStore({ pool, timeoutMs: 15_000 });
    };
    let store: RecordStore = await openStore();
    const close = async () => {
      await store.close();
      if (!pool.ended) await pool.end();
    };
    return {
      store,
      async reopen() {
        await close();
        store = await openStore();
        return store;
      },
      async kill() {
        await server.kill();
        await server.start();
        await close();
        store = await openStore();
        return store;
      },
      close,
    };
  },
});

it('the server reads the arrays that it is sent as they were meant', async () => {
  const numbers = [0, 1, -1, null, 255, -32_768, 32_767];
  const large = [...numbers, 2 ** 32, -(2 ** 32) - 1, Number.MAX_SAFE_INTEGER, -(2 ** 53) + 1];
  const texts = ['', 'plain', 'žluť', '😀 and more', '\u{7f}\u{80}\u{7ff}\u{800}'];
  const everyByte = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('');
  const hashes = Array.from({ length: 16 }, (_, at) => everyByte.slice(16 * at, 16 * at + 16));
  const same = <T>(value: T) => value;
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  const { rows } = await client.query(
    'select $1::int2[] a, $2::int4[] b, $3::int8[]::text[] c, $4::text[] d, $5::uuid[] e, $6::int4[] f, $7::bytea[] g',
    [
      int2Array(numbers, same),
      int4Array([7, -7, 2 ** 31 - 1, -(2 ** 31)], same),
      int8Array(large, same),
      textArray(texts, same),
      uuidArray(hashes, same),
      int4Array([], same),
      byteaArray(texts, Buffer.from),
    ],
  );
  await client.end();
  expect(rows[0]).toEqual({
    a: numbers,
    b: [7, -7, 2 ** 31 - 1, -(2 ** 31)],
    c: large.map((number) => (number === null ? null : String(number))),
    d: texts,
    e: hashes.map(uuidText),
    f: [],
    g: texts.map((text) => Buffer.from(text)),
  });
});
