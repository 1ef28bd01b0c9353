import { parseArgs } from 'node:util';
import { killLedgerWriters } from './ledger-crash/kill-writers.ts';

const USAGE = `npm run crash:ledger -- [--kills N]

Kills a process that writes to a ledger with SIGKILL, N times (200), and opens the ledger again each time. Then no
acknowledged transaction may be lost, none may be there twice, sums must be zero and the chain unbroken.`;

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '200' },
    help: { type: 'boolean', default: false },
  },
});
const kills = Number(values.kills);

if (values.help || !(Number.isSafeInteger(kills) && kills > 0)) {
  console.error(USAGE);
  process.exitCode = values.help ? 0 : 2;
} else {
  const result = await killLedgerWriters(kills, (count) => {
    if (count % 20 === 0) console.log(`  ${count} of ${kills} kills`);
  });
  console.log(
    `${kills} kills: ${result.paid} payments and ${result.wrote} writes were acknowledged, ` +
      `${result.complaints.length} promises broken`,
  );
  for (const complaint of result.complaints.slice(0, 20)) console.log(`  ${complaint}`);
  process.exitCode = result.complaints.length === 0 ? 0 : 1;
}
