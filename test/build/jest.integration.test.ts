import { mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runToEnd } from './child-process.ts';
import { PackedPackages } from './packed-packages.ts';

const JEST = join(
  dirname(createRequire(import.meta.url).resolve('jest/package.json')),
  'bin/jest.js',
);

let packed: PackedPackages;
beforeAll(async () => {
  packed = await PackedPackages.make('onceward');
});
afterAll(() => packed?.dispose());

const TEST = `
const { createServer } = require('node:http');
const express = require('express');
const { OncewardError } = require('onceward');
const { idempotency } = require('onceward/express');
const { openSqliteStore } = require('onceward/sqlite');
const { openWalStore } = require('onceward/wal');

const open = {
  wal: () => openWalStore({ directory: 'data' }),
  sqlite: () => openSqliteStore({ path: 'operations.db', driver: 'libsql' }),
};

test.each(['wal', 'sqlite'])('an order is placed once, on %s', async (kind) => {
  const store = await open[kind]();
  const app = express();
  let orders = 0;
  app.use(idempotency({
    store,
    scopeFrom: () => 'shop',
    effect: { kind: 'external', onLapse: 'in_doubt' },
  }));
  app.post('/orders', (request, response) => response.json({ order: ++orders }));
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = 'http://127.0.0.1:' + server.address().port + '/orders';
  const place = () => fetch(url, { method: 'POST', headers: { 'idempotency-key': 'one' } });
  expect(await (await place()).json()).toEqual({ order: 1 });
  expect(await (await place()).json()).toEqual({ order: 1 });
  await new Promise((resolve) => server.close(resolve));
  await store.close();
});

test('an error is of the class that was loaded', async () => {
  await expect(openSqliteStore({})).rejects.toBeInstanceOf(OncewardError);
});
`;

it('Jest runs a test that requires the library, without any configuration', async () => {
  const project = await packed.project(['onceward'], ['express', 'libsql']);
  await mkdir(join(project, 'test'));
  await writeFile(join(project, 'test/orders.test.js'), TEST);
  const { code, stderr } = await runToEnd(process.execPath, [JEST, '--ci'], project);
  expect(stderr).toContain('Tests:       3 passed, 3 total');
  expect(code).toBe(0);
});
