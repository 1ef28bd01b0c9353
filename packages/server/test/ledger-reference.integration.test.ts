import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readFences } from '../../../test/snippets/fence.ts';
import { askLedger, balanceOf, openAccount, pay } from './ledger-client.ts';
import { ADMIN, startServer } from './running-program.ts';

const run = promisify(execFile);
const fences = ['reference/ledger.md', 'guides/client.md'].flatMap((path) =>
  readFences(path, readFileSync(new URL(`../../../docs/${path}`, import.meta.url), 'utf8')),
);

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

/** The calls as they stand there, to this server and with its credential. */
const calls = fences.filter(({ code }) => code.includes('AdminService/CreateOrganization'));

it('the reference and the guide show the call', () => {
  expect(calls.map(({ document }) => document)).toEqual([
    'reference/ledger.md',
    'guides/client.md',
  ]);
});

it.each(calls)('$document shows how an organization is made', async ({ code }) => {
  const here = code
    .replaceAll(/https?:\/\/[^/]+/g, server.url)
    .replaceAll('ak_…', ADMIN['x-api-key'])
    .replaceAll('sk_…', ADMIN['x-api-secret']);
  const organization = /org_\d+_\d+/;
  let made = '';
  // Each call names what the one before it made.
  for (const call of here.split(/^# .*$/m).filter((text) => text.trim() !== '')) {
    const script = call.replace(organization, made);
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script]);
    expect(Object.values(JSON.parse(stdout))).toEqual([expect.stringMatching(/^(org|vault)_/)]);
    made ||= organization.exec(stdout)?.[0] ?? '';
  }
  expect(made).toMatch(organization);
});

it('the reference shows the body of a transaction, and which way it moves', async () => {
  const { url } = server;
  const [from, to] = [await openAccount(url), await openAccount(url)];
  const bank = await openAccount(url);
  await pay(url, 'funds', { from: bank, to: from, amount: '2000' });
  const shown = fences.find(({ language, code }) => language === 'json' && code.includes('debit'));
  const body = (shown?.code ?? '').replace('acct_0', from).replace('acct_1', to);
  const headers = { ...ADMIN, 'idempotency-key': 'shown' };
  expect((await askLedger(url, '/transaction', body, headers)).status).toBe(201);
  expect([await balanceOf(url, from), await balanceOf(url, to)]).toEqual(['750', '1250']);
});
