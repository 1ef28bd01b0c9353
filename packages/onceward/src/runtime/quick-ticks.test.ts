import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const TYPESCRIPT = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;
const QUICK_TICKS = new URL('./quick-ticks.ts', import.meta.url).href;

/** How much dearer ticks are after the garbage was collected a few times while none was in flight. */
async function dearerAfterGarbage(prepare: string): Promise<number> {
  const script = `
    ${prepare}
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const ticks = (left) => new Promise((resolve) => {
      const next = () => (left-- === 0 ? resolve() : process.nextTick(next));
      next();
    });
    const costs = async () => {
      const runs = [];
      for (let i = 0; i < 9; i += 1) {
        const began = process.hrtime.bigint();
        await ticks(20_000);
        runs.push(Number(process.hrtime.bigint() - began));
      }
      return Math.min(...runs);
    };
    await ticks(100_000);
    const before = await costs();
    for (let i = 0; i < 6; i += 1) { await turn(); gc(); await turn(); }
    console.log((await costs()) / before);`;
  const options = ['--expose-gc', '--import', TYPESCRIPT, '--input-type=module', '-e', script];
  return Number((await promisify(execFile)(process.execPath, options)).stdout);
}

test('ticks stay as quick as they were when the garbage is collected', async () => {
  const kept = await dearerAfterGarbage(`(await import('${QUICK_TICKS}')).keepTicksQuick();`);
  expect(kept).toBeLessThan(2);
});
