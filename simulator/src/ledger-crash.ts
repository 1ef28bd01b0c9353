import { parseArgs } from 'node:util';
import { cleanUpAfterTheDead, whyNoLoopDisk } from './crash/loop-disk.ts';
import { cutLedgerPower } from './ledger-crash/cut-power.ts';
import { killLedgerWriters, type LedgerCrashResult } from './ledger-crash/kill-writers.ts';

const USAGE = `npm run crash:ledger -- [--kills N] [--cuts M]

Kills a process that writes to a ledger with SIGKILL, N times (200), and cuts the power of its disk M times (20; needs
root and loop devices). The ledger is opened again each time: no acknowledged transaction may be lost, none may be
there twice, sums must be zero and the chain unbroken.`;

function readCount(name: string, given: string): number {
  const count = Number(given);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  console.error(`--${name} is ${given}; it must be a whole number from 0\n\n${USAGE}`);
  process.exit(2);
}

function report(what: string, { crashes, paid, wrote, complaints }: LedgerCrashResult): boolean {
  console.log(
    `${crashes} ${what}: ${paid} payments and ${wrote} writes were acknowledged, ` +
      `${complaints.length} promises broken`,
  );
  for (const complaint of complaints.slice(0, 20)) console.log(`  ${complaint}`);
  return complaints.length === 0;
}

function tellEvery(step: number, what: string): (count: number) => void {
  return (count) => {
    if (count % step === 0) console.log(`  ${count} ${what}`);
  };
}

async function crash(kills: number, cuts: number): Promise<boolean> {
  let sound = true;
  if (kills > 0) sound = report('kills', await killLedgerWriters(kills, tellEvery(20, 'kills')));
  if (cuts === 0) return sound;
  await cleanUpAfterTheDead();
  const why = await whyNoLoopDisk();
  if (why !== null) console.log(`No power was cut: ${why}.`);
  else sound = report('power cuts', await cutLedgerPower(cuts, tellEvery(5, 'cuts'))) && sound;
  return sound;
}

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '200' },
    cuts: { type: 'string', default: '20' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) console.log(USAGE);
else {
  const sound = await crash(readCount('kills', values.kills), readCount('cuts', values.cuts));
  process.exitCode = sound ? 0 : 1;
}
