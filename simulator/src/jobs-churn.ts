import { parseArgs } from 'node:util';
import { churn, growthOf } from './jobs-churn/churn.ts';

const USAGE = `npm run churn:jobs -- [--keys N] [--max-entries N] [--alone]

Sends N keys (10,000,000) through one gate and its manager, or through the gate alone, and watches the memory of the
process.`;

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '10000000' },
    'max-entries': { type: 'string', default: '100000' },
    alone: { type: 'boolean', default: false },
  },
});
const [keys, maxEntries] = [Number(values.keys), Number(values['max-entries'])];

if (![keys, maxEntries].every((count) => Number.isSafeInteger(count) && count >= 100)) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  const began = performance.now();
  const samples = await churn({
    keys,
    maxEntries,
    alone: values.alone,
    onSample: ({ keys: seen, rssMiB, pending, answered, records }) => {
      const rate = Math.round(seen / ((performance.now() - began) / 1_000));
      console.log(
        `${seen} keys  ${rssMiB.toFixed(0)} MiB  ${pending} pending, ${answered} answered, ${records} records  ${rate}/s`,
      );
    },
  });
  const growth = growthOf(samples);
  console.log(`growth ${growth.toFixed(3)}`);
  process.exitCode = growth < 1.25 ? 0 : 1;
}
