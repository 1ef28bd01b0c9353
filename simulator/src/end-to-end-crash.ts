import { parseArgs } from 'node:util';
import { runCrashes } from './end-to-end-crash/run-crashes.ts';

const USAGE = `npm run crash:end-to-end -- [--rounds N]

A device queues operations, edits, cancels and retries them, before a gateway before an API that breaks off and falls
silent. In each of N rounds (60) the device is killed with SIGKILL, and often the gateway or the API too. Then each
intention must have happened once at most, and what the device reports must be so.`;

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '60' }, help: { type: 'boolean', default: false } },
});
const rounds = Number(values.rounds);

if (values.help || !Number.isSafeInteger(rounds) || rounds < 1) {
  console.error(USAGE);
  process.exitCode = values.help ? 0 : 2;
} else {
  const { complaints, kills, endings, charges } = await runCrashes({ rounds, random: Math.random });
  const ends: Record<string, number> = {};
  for (const { state, outcome } of endings) {
    ends[outcome ?? state] = (ends[outcome ?? state] ?? 0) + 1;
  }
  console.log(`killed: ${JSON.stringify(kills)}; ${charges} effects`);
  console.log(`how they ended: ${JSON.stringify(ends)}`);
  console.log(`${complaints.length} promises broken`);
  for (const complaint of complaints.slice(0, 20)) console.log(`  ${complaint}`);
  process.exitCode = complaints.length === 0 ? 0 : 1;
}
