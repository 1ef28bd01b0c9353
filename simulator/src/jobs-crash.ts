import { parseArgs } from 'node:util';
import type { FleetStore } from './jobs-crash/fleet.ts';
import { runCrashes } from './jobs-crash/run-crashes.ts';

const USAGE = `npm run crash:jobs -- [--kills N] [--store wal|postgres|redis] [--clients N]

Kills gates, managers and the store with SIGKILL, N times in all (120), while clients submit jobs and repeat
themselves. Then no acknowledged job may be lost, no key may have become two jobs, and none that must not run
twice may have been started twice.`;

const STORES: readonly FleetStore[] = ['wal', 'postgres', 'redis'];

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '120' },
    store: { type: 'string', default: 'postgres' },
    clients: { type: 'string', default: '16' },
    help: { type: 'boolean', default: false },
  },
});
const store = STORES.find((name) => name === values.store);
const [kills, clients] = [Number(values.kills), Number(values.clients)];
const isSound = [kills, clients].every((count) => Number.isSafeInteger(count) && count > 0);

if (values.help || store === undefined || !isSound) {
  console.error(USAGE);
  process.exitCode = values.help ? 0 : 2;
} else {
  const report = await runCrashes({
    ...{ store, kills, clients, random: Math.random },
    onKill: (count) => {
      if (count % 10 === 0) console.log(`${count} of ${kills} kills`);
    },
  });
  console.log(`killed: ${JSON.stringify(report.kills)}`);
  console.log(`${report.acknowledged} jobs acknowledged, ${report.starts} starts seen`);
  console.log(`how they ended: ${JSON.stringify(report.states)}`);
  console.log(`${report.complaints.length} promises broken`);
  for (const complaint of report.complaints.slice(0, 20)) console.log(`  ${complaint}`);
  process.exitCode = report.complaints.length === 0 ? 0 : 1;
}
