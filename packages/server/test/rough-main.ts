import { parseArgs } from 'node:util';
import { describeFailure, percentile, runRounds, TARGETS } from './rough/run-rounds.ts';

const USAGE = `npm run rough -- --target gateway|server [--rounds N] [--seed S] [--restart-every N] [--failures N]
npm run rough -- --target gateway|server --seed S --round K [--visit V] [--rounds TIMES]

Sends rough traffic to a program of its own: clients that leave at every moment, pipelines, slow uploads and
unread answers, duplicates, upgrades, malformed requests; now and then it is drained or killed amid all of it.
After each round it must live, serve fresh requests, hold nothing, and have done each key once. The second form
plays one round again, or one visit of it.`;

const { values } = parseArgs({
  options: {
    target: { type: 'string', default: '' },
    rounds: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    round: { type: 'string' },
    visit: { type: 'string' },
    'restart-every': { type: 'string', default: '250' },
    failures: { type: 'string', default: '5' },
    help: { type: 'boolean', default: false },
  },
});
const make = Object.entries(TARGETS).find(([name]) => name === values.target)?.[1];
const numbers = {
  rounds: Number(values.rounds ?? (values.round === undefined ? 10_000 : 1)),
  seed: Number(values.seed),
  restartEvery: Number(values['restart-every']),
  maxFailures: Number(values.failures),
};
const round = Number(values.round ?? 0);
const visit = values.visit === undefined ? null : Number(values.visit);
const isSound = [...Object.values(numbers), round, visit ?? 0].every(
  (number) => Number.isSafeInteger(number) && number >= 0,
);

if (values.help || make === undefined || !isSound || numbers.restartEvery === 0) {
  console.error(USAGE);
  process.exitCode = values.help ? 0 : 2;
} else {
  const { seed, restartEvery, rounds } = numbers;
  const command = `npm run rough -- --target ${values.target} --seed ${seed} --restart-every ${restartEvery}`;
  console.log(`${rounds} rounds at the ${values.target}, seed ${seed}`);
  let done = 0;
  const began = performance.now();
  const report = await runRounds({
    make,
    ...numbers,
    ...(values.round === undefined ? {} : { replay: { round, visit } }),
    progress(played) {
      done += 1;
      if (played.complaints.length > 0) console.log(describeFailure(played, command));
      if (done % 100 !== 0) return;
      const seconds = Math.round((performance.now() - began) / 1_000);
      console.log(`${done} of ${rounds} rounds, ${seconds} s`);
    },
  });
  const mib = report.rssBytes.map((bytes) => Math.round(bytes / 1_048_576));
  const ms = (share: number) => Math.round(percentile(report.probesMs, share));
  console.log(`${report.played} rounds, ${report.failures.length} of them bad`);
  console.log(`fresh requests: p50 ${ms(0.5)} ms, p99 ${ms(0.99)} ms, slowest ${ms(1)} ms`);
  console.log(`memory: median ${percentile(mib, 0.5)} MiB, most ${percentile(mib, 1)} MiB`);
  if (report.memory !== null) console.log(`memory: ${report.memory}`);
  process.exitCode = report.failures.length === 0 && report.memory === null ? 0 : 1;
}
