import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { askLedger, balanceOf, openAccount, pay } from './ledger-client.ts';
import { startServer } from './running-program.ts';
import { SmallDisk } from './small-disk.ts';

const disk = new SmallDisk('6m');
let server: Awaited<ReturnType<typeof startServer>>;
afterAll(async () => {
  await server?.stop();
  disk.remove();
});

// Without the right to mount there is no small disk to fill.
describe.skipIf(!disk.isThere)('a ledger whose disk is full when it saves its state', () => {
  it('[L9] [E12] stops with a coded error, the server lives on, and nothing acknowledged is lost', async () => {
    const env = { ONCEWARD_DATA: join(disk.path, 'data') };
    server = await startServer(env);
    const accounts = { from: await openAccount(server.url), to: await openAccount(server.url) };
    let paid = 0;
    const payOnce = async (key: string) => {
      const answer = await pay(server.url, key, { ...accounts, amount: '1' });
      if (answer.status === 201) paid += 1;
      return answer;
    };
    for (let n = 0; n < 50; n += 1) expect((await payOnce(`key-${n}`)).status).toBe(201);

    disk.fillUp();
    const unavailable = { status: 503, body: { error: { code: 'LEDGER_UNAVAILABLE' } } };
    for (let n = 0; n < 3; n += 1) {
      expect(await askLedger(server.url, '/integrity')).toMatchObject(unavailable);
    }
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    const notReady = await fetch(`${server.url}/readyz`);
    expect(notReady.status).toBe(503);
    expect(await notReady.json()).toMatchObject({
      detail: expect.stringMatching(/disk is full/),
    });
    expect(await balanceOf(server.url, accounts.to)).toBe(`${paid}`);

    // The changes of the state that were not saved are known to the log alone, so nothing more is taken.
    disk.makeRoom();
    expect(await payOnce('late')).toMatchObject({
      ...unavailable,
      body: { error: { happened: 'no' } },
    });
    await server.stop();

    server = await startServer(env);
    expect(await balanceOf(server.url, accounts.to)).toBe(`${paid}`);
    for (let n = 0; n < 50; n += 1) expect((await payOnce(`key-${n}`)).status).toBe(409);
    expect((await payOnce('late')).status).toBe(201);
    expect(await askLedger(server.url, '/integrity')).toMatchObject({ body: { ok: true } });
    expect(await server.stop()).toMatchObject({ code: 0 });
  }, 120_000);
});
