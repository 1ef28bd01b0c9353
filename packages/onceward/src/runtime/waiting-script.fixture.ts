import { createOnceward } from 'onceward';
import { openSqliteStore } from 'onceward/sqlite';

/** A script with nothing else to do: what it waits for must keep it alive. */
const [path, ms] = process.argv.slice(2);
const store = await openSqliteStore({ path: path as string });
const engine = createOnceward({ store });
const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
const value = await engine.once({ scope: 'scripts', key: 'nightly', effect }, async () => {
  console.log('runs');
  await new Promise((resolve) => setTimeout(resolve, Number(ms)));
  return 'done';
});
console.log(value);
await engine.close();
await store.close();
