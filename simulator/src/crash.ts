import { parseArgs } from 'node:util';
import { type CrashResult, killWriters } from './crash/kill-loop.ts';
import { cleanUpAfterTheDead, whyNoLoopDisk } from './crash/loop-disk.ts';
import { cutPower } from './crash/power-cut.ts';

const USAGE = 'Usage: npm run crash -- [--kills N] [--cuts M]';

function readCount(name: string, given: string): number {
  const count = Number(given);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  console.error(`--${name} is ${given}; it must be a whole number from 0\n${USAGE}`);
  process.exit(2);
}

function report(what: string, result: CrashResult): boolean {
  const { crashes, answered, effects, complaints } = result;
  console.log(
    `${crashes} ${what}: ${answered} answers and ${effects} effects were acknowledged, ` +
      `${complaints.length} were lost, doubled or changed`,
  );
  for (const complaint of complaints.slice(0, 20)) console.log(`  ${complaint}`);
  return complaints.length === 0;
}

function tellEvery(step: number, what: string): (count: number) => void {
  return (count) => {
    if (count % step === 0) console.log(`  ${count} ${what}`);
  };
}

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '100' },
    cuts: { type: 'string', default: '20' },
  },
});
const kills = readCount('kills', values.kills);
const cuts = readCount('cuts', values.cuts);
let sound = true;

if (kills > 0)
  sound = report('kills', await killWriters(kills, { onCrash: tellEvery(20, 'kills') }));
if (cuts > 0) {
  await cleanUpAfterTheDead();
  const why = await whyNoLoopDisk();
  if (why !== null) console.log(`No power was cut: ${why}.`);
  else
    sound = report('power cuts', await cutPower(cuts, { onCrash: tellEvery(5, 'cuts') })) && sound;
}
process.exitCode = sound ? 0 : 1;
