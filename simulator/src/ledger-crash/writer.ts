import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { EmbeddedLog, type Ledger, openLedger } from '@onceward/ledger';

/**
 * node writer.ts DIRECTORY FROM: pays and writes until it is killed, and says on standard output what it was
 * told, a line each: `open`, `paid N`, `known N` (a key that was already used), `wrote SEQUENCE`.
 */
const [directory = '', from = '0'] = process.argv.slice(2);
const CALLER = { actor: 'client:crash', credential: 'ak_crash' } as const;
const WORKERS = 32;
const ACCOUNTS = 8;

/** Small, so that hardly a life ends without a checkpoint, a snapshot or the end of a log file under way. */
const ledger = await openLedger({
  directory,
  log: await EmbeddedLog.open({ directory: join(directory, 'log'), segmentBytes: 2 ** 20 }),
  checkpointBytes: 40_000,
  snapshotBytes: 200_000,
});
while (ledger.reads.account(`acct_${ACCOUNTS - 1}`) === undefined) {
  await ledger.createAccount(CALLER, { category: 'WALLET', asset: 'USD' });
}
say('open');
let next = Number(from);
await Promise.all([
  ...Array.from({ length: WORKERS }, () => payForEver(ledger)),
  writeForEver(ledger),
]);

async function payForEver(to: Ledger): Promise<never> {
  for (;;) {
    const number = next++;
    const body = {
      journal_entries: [
        {
          sequence: 1,
          type: 'PAYMENT',
          asset: 'USD',
          amount: (number % 7) + 1,
          debit: { account_id: `acct_${number % ACCOUNTS}` },
          credit: { account_id: `acct_${(number + 1 + (number % 3)) % ACCOUNTS}` },
        },
      ],
    };
    for (;;) {
      const result = await to.transact(CALLER, `payment-${number}`, body);
      if (!result.ok && result.code === 'BATCH_ROLLED_BACK') continue;
      if (result.ok) say(`paid ${number}`);
      else if (result.code === 'DUPLICATE_IDEMPOTENCY_KEY') say(`known ${number}`);
      else throw new Error(`payment ${number}: ${result.message}`);
      break;
    }
  }
}

/** One client that recovers its sequence, as a client should, and then goes on from there. */
async function writeForEver(to: Ledger): Promise<never> {
  const organization = await findOrganization(to);
  let sequence = to.reads.clientState({ organization }, 'writer');
  for (;;) {
    sequence += 1n;
    const idempotencyKey = keyOf(sequence);
    const value = new TextEncoder().encode(`${sequence}`);
    const operations = [{ setEntity: { key: `key-${sequence % 50n}`, value } }];
    const input = { organization, clientId: 'writer', sequence, idempotencyKey, operations };
    const result = await to.write(CALLER, input);
    if (!result.ok) throw new Error(`write ${sequence}: ${result.code} ${result.message}`);
    say(`wrote ${sequence}`);
  }
}

async function findOrganization(to: Ledger): Promise<string> {
  for (let height = 1; height <= to.getTip().header.height; height += 1) {
    const line = to.getBlock(height)?.texts.find((text) => text.includes('"kind":"organization"'));
    if (line !== undefined) return (JSON.parse(line) as { created: string }).created;
  }
  const created = await to.createOrganization(CALLER, { name: 'crash' });
  if (!created.ok) throw new Error(created.message);
  return created.id;
}

function keyOf(sequence: bigint): Uint8Array {
  const bytes = new Uint8Array(16);
  new DataView(bytes.buffer).setBigUint64(8, sequence);
  bytes[6] = 0x40;
  bytes[8] = 0x80;
  return bytes;
}

/** Said when it returns: what a killed process still had to say would be lost. A full pipe is waited for. */
function say(line: string): void {
  for (;;) {
    try {
      writeSync(1, `${line}\n`);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
