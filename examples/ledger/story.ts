import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CREDENTIAL, LedgerServer } from './server.ts';
import { type Bank, transfer } from './transfer.ts';

const TRANSFERS = 200;
const AT_ONCE = 10;
const KILLS = 2;
const START = 100n;

export interface Ending {
  readonly done: number;
  readonly rejected: number;
  readonly kills: number;
  readonly balances: readonly bigint[];
  /** What the transfers that were done add up to, for each of the two customers. */
  readonly expected: readonly bigint[];
  readonly isSound: boolean;
}

/** Two customers pay each other while the server is killed under them. Every payment happens once or not at all. */
export async function tellStory(): Promise<Ending> {
  const data = await mkdtemp(join(tmpdir(), 'onceward-example-ledger-'));
  const server = new LedgerServer(data);
  const bank: Bank = { url: () => server.url, headers: CREDENTIAL };
  try {
    await server.start();
    const [mint, ann, bob] = [await open(bank), await open(bank), await open(bank)];
    for (const [at, customer] of [ann, bob].entries()) {
      await fund(bank, `start-${at}`, mint, customer);
    }
    const kills = killNowAndThen(server);
    const ending = await payBackAndForth(bank, ann, bob);
    await kills;
    const balances = [await balanceOf(bank, ann), await balanceOf(bank, bob)];
    const integrity = await ask<{ ok: boolean }>(bank, '/integrity');
    return { ...ending, kills: KILLS, balances, isSound: integrity.ok };
  } finally {
    await server.stop('SIGTERM');
    await rm(data, { recursive: true, force: true });
  }
}

async function payBackAndForth(bank: Bank, ann: string, bob: string) {
  let [done, rejected, annHas, bobHas, next] = [0, 0, START, START, 0];
  const teller = async () => {
    while (next < TRANSFERS) {
      const number = next++;
      const amount = BigInt(1 + (number % 40));
      const [from, to] = number % 3 === 0 ? [bob, ann] : [ann, bob];
      const outcome = await transfer(bank, { key: `payment-${number}`, from, to, amount });
      // The customers have what they have; a payment that they cannot make is not made.
      if (outcome === 'rejected') rejected += 1;
      else {
        done += 1;
        annHas += to === ann ? amount : -amount;
        bobHas += to === bob ? amount : -amount;
      }
      await sleep(50);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, teller));
  return { done, rejected, expected: [annHas, bobHas] };
}

async function killNowAndThen(server: LedgerServer): Promise<void> {
  for (let kill = 0; kill < KILLS; kill += 1) {
    await sleep(250);
    await server.stop('SIGKILL');
    await server.start();
  }
}

async function fund(bank: Bank, key: string, mint: string, customer: string): Promise<void> {
  const entry = {
    sequence: 1,
    type: 'FUNDING',
    asset: 'USD',
    amount: START.toString(),
    debit: { account_id: mint },
    credit: { account_id: customer },
  };
  await ask(bank, '/transaction', { journal_entries: [entry] }, { 'idempotency-key': key });
}

async function open(bank: Bank): Promise<string> {
  return (await ask<{ id: string }>(bank, '/account', { category: 'WALLET', asset: 'USD' })).id;
}

async function balanceOf(bank: Bank, account: string): Promise<bigint> {
  return BigInt((await ask<{ balance: string }>(bank, `/account/${account}`)).balance);
}

async function ask<T>({ url, headers }: Bank, path: string, body?: object, more = {}): Promise<T> {
  const response = await fetch(url() + path, {
    headers: { ...headers, 'content-type': 'application/json', ...more },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path} answers ${response.status}`);
  return (await response.json()) as T;
}
