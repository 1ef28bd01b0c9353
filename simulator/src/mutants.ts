import { parseArgs } from 'node:util';
import { huntMutant } from './mutants/hunt-mutant.ts';
import { MUTANTS } from './mutants/mutant-list.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '20000' },
    world: { type: 'string', default: '' },
    named: { type: 'string', default: '' },
    stories: { type: 'boolean', default: false },
  },
});
const seeds = Number(values.seeds);
if (!Number.isSafeInteger(seeds) || seeds < 1) {
  console.error(`--seeds is ${values.seeds}; it must be a whole number from 1`);
  process.exit(2);
}

const chosen = MUTANTS.filter(
  ({ name, world = 'engine' }) => name.includes(values.named) && world.includes(values.world),
);
const width = Math.max(...chosen.map(({ name }) => name.length));
console.log(`${'mutant'.padEnd(width)}  row  seed   after  trace  seconds  found as`);
let survivors = 0;
for (const mutant of chosen) {
  const began = performance.now();
  const caught = await huntMutant(mutant, seeds);
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  if (caught.seed === null) survivors += 1;
  const columns = [
    mutant.name.padEnd(width),
    mutant.breaks.padEnd(3),
    String(caught.seed ?? '–').padEnd(5),
    String(caught.seeds).padEnd(5),
    String(caught.lines).padEnd(5),
    seconds.padStart(7),
    caught.rule ?? `SURVIVED ${caught.seeds} seeds`,
  ];
  console.log(columns.join('  '));
  if (values.stories) console.log(caught.story);
}
console.log(`${chosen.length - survivors} of ${chosen.length} mutants found`);
process.exitCode = survivors === 0 ? 0 : 1;
