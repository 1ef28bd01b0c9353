import { expect, it } from 'vitest';
import { openAccount, pay } from './ledger-client.ts';
import { runCommand, startServer, temporaryFolder } from './running-program.ts';

it('[U3] [S9] verify walks the chain of a ledger that nobody else has open, and says what it found', async () => {
  const folder = temporaryFolder();
  const env = { ONCEWARD_DATA: folder.path };
  expect(await runCommand(['verify'], env)).toMatchObject({ code: 3 });
  const server = await startServer(env);
  const [from, to] = [await openAccount(server.url), await openAccount(server.url)];
  for (let at = 0; at < 5; at += 1) await pay(server.url, `key-${at}`, { from, to });
  const running = await runCommand(['verify'], env);
  expect(running).toMatchObject({ code: 7, stdout: '' });
  await server.stop();

  const { code, stdout, stderr } = await runCommand(['verify', '--json'], env);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    ok: true,
    chain: { ok: true, first: 1, transactions: 7 },
    state: { ok: true, assets: [{ asset: 'USD', accounts: 2, sum: '0' }] },
  });
  expect(stderr).toMatch(/^verified \d+ of \d+ blocks$/m);
  folder.remove();
});
