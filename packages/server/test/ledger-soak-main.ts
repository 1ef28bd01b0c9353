// npm run soak:ledger [-- MINUTES [RATE]]: a server with the settings it comes with, 200 transactions a second for
// twenty minutes, and its memory. It ends with 1 if that has grown by more than a hundred MiB after the first minutes:
// the keys of an hour are kept, and take less.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openAccount, pay } from './ledger-client.ts';
import { startServer } from './running-program.ts';

const minutes = Number(process.argv[2] ?? 20);
const rate = Number(process.argv[3] ?? 200);
if (!(minutes >= 1 && rate >= 1 && rate <= 1_000)) {
  console.error('Usage: npm run soak:ledger [-- MINUTES [RATE]]');
  process.exit(2);
}
/** Until then caches and compiled code settle. */
const SETTLED_AFTER = Math.min(3, minutes / 4);
const MOST_GROWTH_MIB = 100;
const TICK_MS = 50;
const MINUTE_MS = 60_000;

const server = await startServer();
const accounts = await Promise.all(Array.from({ length: 100 }, () => openAccount(server.url)));
const failures = new Map<string, number>();
let sent = 0;

async function sendOne(n: number): Promise<void> {
  const from = accounts[n % accounts.length] ?? '';
  const to = accounts[(n + 7) % accounts.length] ?? '';
  const what = await pay(server.url, randomUUID(), { from, to }).then(
    ({ status, body }) => (status === 201 ? null : `${status} ${body.error?.code}`),
    (error: unknown) => String(error),
  );
  if (what !== null) failures.set(what, (failures.get(what) ?? 0) + 1);
}

function memoryOf(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1_024;
}

const began = performance.now();
const elapsed = () => performance.now() - began;
let told = 0;
let settled = 0;
const samples: number[] = [];
while (elapsed() < minutes * MINUTE_MS) {
  for (const due = (elapsed() / 1_000) * rate; sent < due; sent += 1) void sendOne(sent);
  await sleep(TICK_MS);
  const minute = elapsed() / MINUTE_MS;
  if (minute < told + 0.5) continue;
  told += 0.5;
  const mib = memoryOf(server.program.child.pid);
  if (minute <= SETTLED_AFTER || settled === 0) settled = Math.max(settled, mib);
  samples.push(mib);
  console.log(`${told.toFixed(1)} min  ${sent} sent  ${mib.toFixed(0)} MiB`);
}
await server.stop();
for (const [what, count] of failures) console.error(`${count} × ${what}`);
// The mean of the last quarter: one sample may have caught the moment before a collection.
const last = samples.slice(-Math.ceil(samples.length / 4));
const growth = last.reduce((sum, mib) => sum + mib, 0) / last.length - settled;
console.log(`${sent} transactions, grown by ${growth.toFixed(0)} MiB`);
process.exitCode = growth <= MOST_GROWTH_MIB && failures.size === 0 ? 0 : 1;
