import { type BenchOptions, benches } from './benches.ts';
import { makeReport } from './report.ts';

const USAGE = `npm run bench -- NAME [--json] [--quick]

  NAME     ${Object.keys(benches).join(', ')}
  --json   one object a line: {"bench","case","metric","value","against","ratio"}
  --quick  shorter runs; for trying things, not for figures to quote`;

const args = process.argv.slice(2);
const name = args.find((arg) => !arg.startsWith('--'));
const unknown = args.filter((arg) => arg.startsWith('--') && !['--json', '--quick'].includes(arg));
const bench = name === undefined ? undefined : benches[name];
if (bench === undefined || unknown.length > 0) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  const options: BenchOptions = { quick: args.includes('--quick') };
  await bench(makeReport(args.includes('--json')), options);
}
