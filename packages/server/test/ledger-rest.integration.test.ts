import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askLedger, balanceOf, newCredential, openAccount, pay } from './ledger-client.ts';
import { ADMIN, runCommand, startServer, temporaryFolder } from './running-program.ts';
import { scrape } from './scrape.ts';

let server: Awaited<ReturnType<typeof startServer>>;
let url: string;
let from: string;
let to: string;

beforeAll(async () => {
  server = await startServer();
  url = server.url;
  from = await openAccount(url);
  to = await openAccount(url);
});
afterAll(() => server.stop());

describe('transactions over HTTP', () => {
  it('[L1] are committed with their entries, and move exact amounts beyond 2^53', async () => {
    const [rich, poor] = [await openAccount(url, 'wei'), await openAccount(url, 'WEI')];
    const amount = '900719925474099312345678901234567890';
    const first = await pay(url, randomUUID(), { from: rich, to: poor, asset: 'WEI', amount });
    expect(first.status).toBe(201);
    expect(first.body).toMatchObject({
      transaction_id: expect.stringMatching(/^tx_/),
      journal_entries: [{ id: expect.any(String), sequence: 1, type: 'PAYMENT', amount }],
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
    const text = { from: rich, to: poor, asset: 'WEI', amount: '"9007199254740993"' };
    expect((await pay(url, randomUUID(), text)).status).toBe(201);
    const sum = (BigInt(amount) + 9007199254740993n).toString();
    expect(await balanceOf(url, poor)).toBe(sum);
    expect(await balanceOf(url, rich)).toBe(`-${sum}`);
  });

  it('[L2] [L3] are refused when sent again, and never replayed', async () => {
    const key = randomUUID();
    const before = await scrape(url);
    const first = await pay(url, key, { from, to });
    const again = await pay(url, key, { from, to });
    expect(again.status).toBe(409);
    expect(again.body).toEqual({
      error: {
        code: 'DUPLICATE_IDEMPOTENCY_KEY',
        message: expect.stringContaining(String(first.body.transaction_id)),
        retry: 'never',
        happened: 'unknown',
        layer: 'database',
      },
    });
    const series = 'onceward_ledger_duplicates_total{layer="database"}';
    expect((await scrape(url)).get(series)).toBe((before.get(series) ?? 0) + 1);
  });

  it('[L3] are found by their key with request and response, by their own credential alone', async () => {
    const [mine, other] = [await newCredential(url), await newCredential(url)];
    const key = `of mine: ${randomUUID()}`;
    const { body } = await pay(url, key, { from, to, amount: '7' }, mine);
    const path = `/idempotency/${encodeURIComponent(key)}`;
    const found = await askLedger(url, path, undefined, mine);
    expect(found.status).toBe(200);
    expect(found.body).toMatchObject({
      idempotency_key: key,
      request: { journal_entries: [{ sequence: 1, amount: 7, debit: { account_id: from } }] },
      created_at: body.created_at,
    });
    expect(found.body.response).toEqual(body);
    const absent = await askLedger(url, '/idempotency/never-used', undefined, mine);
    expect(absent).toMatchObject({
      status: 404,
      body: { error: { code: 'IDEMPOTENCY_KEY_NOT_FOUND' } },
    });
    expect(await askLedger(url, path, undefined, other)).toEqual(absent);
    expect((await pay(url, key, { from, to }, other)).status).toBe(201);
  });

  it('[L7] that lack funds move nothing, and their key stays used', async () => {
    const empty = await openAccount(url);
    const key = randomUUID();
    const payment = { from: empty, to, policy: 'ALWAYS_POSITIVE' };
    const before = await balanceOf(url, to);
    const first = await pay(url, key, payment);
    expect(first).toMatchObject({ status: 422, body: { error: { code: 'INSUFFICIENT_FUNDS' } } });
    expect(await balanceOf(url, to)).toBe(before);
    expect((await pay(url, key, payment)).status).toBe(409);
    expect((await askLedger(url, `/idempotency/${key}`)).body).toMatchObject({
      status: 'rejected',
      response: { error: { code: 'INSUFFICIENT_FUNDS' } },
    });
  });

  it('[L2] in flight twice are one, and the other is refused at once', async () => {
    const layers = new Set<unknown>();
    for (let round = 0; round < 20; round += 1) {
      const key = randomUUID();
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => pay(url, key, { from, to })),
      );
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
      for (const { status, body } of answers) {
        if (status !== 409) continue;
        layers.add(body.error?.layer);
        // The first may yet be undone with its batch.
        if (body.error?.layer === 'in_flight') expect(body.error.retry).toBe('same_key');
      }
    }
    expect(layers).toContain('in_flight');
  });

  it('[L5] are shown by id, and on the pages of their accounts', async () => {
    const [left, right] = [await openAccount(url), await openAccount(url)];
    const ids: unknown[] = [];
    for (const amount of ['1', '2', '3', '4', '5']) {
      ids.unshift(
        (await pay(url, randomUUID(), { from: left, to: right, amount })).body.transaction_id,
      );
    }
    const seen: unknown[] = [];
    let cursor: string | null | undefined = '';
    for (let page = 0; page < 10 && typeof cursor === 'string'; page += 1) {
      const path: string = `/account/${right}/ledger?cursor=${cursor}&limit=2`;
      const { body } = await askLedger(url, path);
      for (const entry of body.entries as { transaction_id: string }[])
        seen.push(entry.transaction_id);
      cursor = body.next_cursor;
    }
    expect(seen).toEqual(ids);
    const newest = await askLedger(url, `/account/${right}/ledger?limit=1`);
    expect(newest.body.entries).toMatchObject([
      { amount: '5', direction: 'credit', counterpart: left, balance_after: '15' },
    ]);
    const shown = await askLedger(url, `/transaction/${ids[0]}`);
    expect(shown.body).toMatchObject({ transaction_id: ids[0], status: 'committed' });
    expect(JSON.stringify(shown.body)).not.toContain('idempotency');
  });

  it('[L5] leave the sums at zero and the chain unbroken', async () => {
    const { body } = await askLedger(url, '/integrity');
    expect(body).toMatchObject({ ok: true, chain: { ok: true }, state: { ok: true } });
    const { assets } = body.state as { assets: { sum: string }[] };
    expect(new Set(assets.map(({ sum }) => sum))).toEqual(new Set(['0']));
  });
});

describe('[L2] a key that is already committed', () => {
  const storm = async (target: string, used: string) => {
    const jobs = Array.from({ length: 40 }, (_, at) =>
      pay(target, at === 20 ? used : randomUUID(), { from: 'acct_0', to: 'acct_1', amount: '1' }),
    );
    return Promise.all(jobs);
  };

  it('undoes its batch: the others may retry with the same key', async () => {
    const rolledBack: string[] = [];
    const used = randomUUID();
    await pay(url, used, { from: 'acct_0', to: 'acct_1' });
    for (let round = 0; round < 30 && rolledBack.length === 0; round += 1) {
      const before = BigInt(await balanceOf(url, 'acct_1'));
      const answers = await storm(url, used);
      const good = answers.filter(({ status }) => status === 201).length;
      expect(BigInt(await balanceOf(url, 'acct_1'))).toBe(before + BigInt(good));
      expect(answers[20]?.body.error?.code).toBe('DUPLICATE_IDEMPOTENCY_KEY');
      for (const { body } of answers) {
        if (body.error?.code === 'BATCH_ROLLED_BACK') rolledBack.push(String(body.error.retry));
      }
    }
    expect(new Set(rolledBack)).toEqual(new Set(['same_key']));
    expect((await scrape(url)).get('onceward_ledger_rolled_back_total')).toBe(rolledBack.length);
  });

  it('costs nobody else anything under LEDGER_DATABASE_CONFLICT=reject_duplicate', async () => {
    const gentle = await startServer({ LEDGER_DATABASE_CONFLICT: 'reject_duplicate' });
    for (let at = 0; at < 2; at += 1) await openAccount(gentle.url);
    const used = randomUUID();
    await pay(gentle.url, used, { from: 'acct_0', to: 'acct_1' });
    for (let round = 0; round < 5; round += 1) {
      const answers = await storm(gentle.url, used);
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(39);
      expect(answers[20]?.status).toBe(409);
    }
    await gentle.stop();
  });
});

describe('[L4] the window of keys', () => {
  it('ends when the settings say, and the key is unknown and free then', async () => {
    const short = await startServer({
      LEDGER_IDEMPOTENCY_TTL_HOURS: '0.001',
      LEDGER_IDEMPOTENCY_CLEANUP_INTERVAL_MIN: '0.01',
      LEDGER_BATCH_SIZE: '16',
      LEDGER_BATCH_TIMEOUT_MS: '1',
    });
    const [left, right] = [await openAccount(short.url), await openAccount(short.url)];
    const payment = { from: left, to: right };
    expect((await pay(short.url, 'short-lived', payment)).status).toBe(201);
    expect((await pay(short.url, 'short-lived', payment)).status).toBe(409);
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    expect((await askLedger(short.url, '/idempotency/short-lived')).status).toBe(404);
    expect((await pay(short.url, 'short-lived', payment)).status).toBe(201);
    await short.stop();
  });

  it('that is not a number keeps the server from starting, with the name of the setting', async () => {
    const folder = temporaryFolder();
    const env = { PORT: '0', ONCEWARD_DATA: folder.path, LEDGER_IDEMPOTENCY_TTL_HOURS: 'long' };
    const { code, stderr } = await runCommand(['serve'], env);
    expect(code).toBe(2);
    expect(stderr).toContain('LEDGER_IDEMPOTENCY_TTL_HOURS');
    folder.remove();
  });
});

describe('[L6] credentials', () => {
  it('are needed, must be right, and are worth nothing once revoked', async () => {
    const mine = await newCredential(url);
    expect((await pay(url, randomUUID(), { from, to }, mine)).status).toBe(201);
    for (const headers of [
      {},
      { ...mine, 'x-api-secret': 'sk_guess' },
      { ...ADMIN, ...{ 'x-api-key': 'ak_no' } },
    ]) {
      const answer = await pay(url, randomUUID(), { from, to }, headers);
      expect(answer).toMatchObject({ status: 401, body: { error: { code: 'UNAUTHORIZED' } } });
    }
    const revoked = await fetch(`${url}/credentials/${mine['x-api-key']}`, {
      method: 'DELETE',
      headers: ADMIN,
    });
    expect(revoked.status).toBe(204);
    expect((await pay(url, randomUUID(), { from, to }, mine)).status).toBe(401);
  });

  it('that may only look cannot post', async () => {
    const reader = await newCredential(url, 'read_only');
    const answer = await pay(url, randomUUID(), { from, to }, reader);
    expect(answer).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN' } } });
    expect((await askLedger(url, `/account/${from}`, undefined, reader)).status).toBe(200);
  });
});
