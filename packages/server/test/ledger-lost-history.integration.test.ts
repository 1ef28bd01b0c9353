import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { openLedger } from '@onceward/ledger';
import { afterAll, expect, it } from 'vitest';
import { askLedger, openAccount, pay } from './ledger-client.ts';
import { startServer, temporaryFolder } from './running-program.ts';

const folder = temporaryFolder();
const env = { ONCEWARD_DATA: folder.path };
afterAll(() => folder.remove());

/** Every life begins a segment of the log, and those before the snapshot go with it. */
async function forgetLog(directory: string): Promise<void> {
  for (let life = 0; life < 3; life += 1) {
    await (await openLedger({ directory, snapshotBytes: 1 })).close();
  }
}

it('[E16] [L9] a ledger that has lost blocks says so, and never that what is in them did not happen', async () => {
  const before = await startServer(env);
  const accounts = { from: await openAccount(before.url), to: await openAccount(before.url) };
  const { body } = await pay(before.url, 'early', accounts);
  await before.stop();
  const directory = join(folder.path, 'ledger');
  await forgetLog(directory);
  rmSync(join(directory, 'state', 'history'), { recursive: true });

  const server = await startServer(env);
  const opened = /\{[^\n]*"ledger_opened"\}/.exec(server.program.stdout + server.program.stderr);
  const { level, lostBefore } = JSON.parse(opened?.[0] ?? '{}');
  expect(level).toBe('warn');
  expect(lostBefore).toBeGreaterThan(3);
  const lost = {
    status: 503,
    body: {
      error: {
        code: 'LEDGER_UNAVAILABLE',
        retry: 'never',
        happened: 'unknown',
        message: expect.stringContaining(`complete from block ${lostBefore} on`),
      },
    },
  };
  const { transaction_id: id } = body;
  for (const path of [`/transaction/${id}`, `/transaction/${id}/proof`, '/idempotency/early']) {
    expect(await askLedger(server.url, path)).toMatchObject(lost);
  }
  expect(await askLedger(server.url, '/recovery')).toMatchObject(lost);
  expect(await askLedger(server.url, '/integrity')).toMatchObject({
    status: 200,
    body: { ok: true, chain: { first: lostBefore, lost_before: lostBefore } },
  });
  expect(await pay(server.url, 'early', accounts)).toMatchObject({
    status: 409,
    body: { error: { code: 'DUPLICATE_IDEMPOTENCY_KEY', happened: 'unknown' } },
  });
  expect(await askLedger(server.url, `/transaction/tx_9999_0`)).toMatchObject({ status: 404 });
  await server.stop();
}, 60_000);
