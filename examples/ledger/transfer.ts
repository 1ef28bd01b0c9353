import { setTimeout as sleep } from 'node:timers/promises';

export interface Bank {
  readonly url: () => string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Transfer {
  /** Chosen once for the transfer, before the first try, and kept for every other. */
  readonly key: string;
  readonly from: string;
  readonly to: string;
  readonly amount: bigint;
}

export type Outcome = 'done' | 'rejected';

const TRIES = 200;
const WAIT_MS = 100;

/**
 * Moves money once, however often it has to ask. The ledger never replays an answer: that the key is used already is
 * the answer, and its outcome can be looked up.
 */
export async function transfer(bank: Bank, order: Transfer): Promise<Outcome> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const answer = await send(bank, order).catch(() => null);
    if (answer?.status === 201) return 'done';
    if (answer?.status === 422) return 'rejected';
    if (answer?.code === 'DUPLICATE_IDEMPOTENCY_KEY') {
      const known = await lookUp(bank, order.key).catch(() => null);
      if (known !== null) return known;
    } else if (answer !== null && answer.status < 500 && answer.code !== 'BATCH_ROLLED_BACK') {
      throw new Error(`the ledger does not take ${order.key}: ${answer.code}`);
    }
    // No answer, an overload, a batch that was undone, or our own try before this one: ask again with the same key.
    await sleep(WAIT_MS);
  }
  throw new Error(`no word about ${order.key}`);
}

async function send({ url, headers }: Bank, { key, from, to, amount }: Transfer) {
  const entry = {
    sequence: 1,
    type: 'TRANSFER',
    asset: 'USD',
    amount: amount.toString(),
    debit: { account_id: from, balance_policy: 'ALWAYS_POSITIVE' },
    credit: { account_id: to, balance_policy: 'NONE' },
  };
  const response = await fetch(`${url()}/transaction`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ journal_entries: [entry] }),
  });
  const body = (await response.json()) as { error?: { code: string } };
  return { status: response.status, code: body.error?.code };
}

/** `null`: the ledger does not know the key yet. */
async function lookUp({ url, headers }: Bank, key: string): Promise<Outcome | null> {
  const response = await fetch(`${url()}/idempotency/${encodeURIComponent(key)}`, { headers });
  if (!response.ok) return null;
  const { status } = (await response.json()) as { status: string };
  return status === 'committed' ? 'done' : 'rejected';
}
