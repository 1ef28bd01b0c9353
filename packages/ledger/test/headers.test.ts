import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeFolder,
  openTestLedger,
  type TestLedger,
  testClock,
  uuid,
} from './manual-ledger.ts';

const MIB = 1_024 * 1_024;
/** Each takes most of a mebibyte in its block. */
const LARGE_BLOCKS = 24;

let folder: Awaited<ReturnType<typeof makeFolder>>;
let ledger: TestLedger;

beforeEach(async () => {
  folder = await makeFolder();
  const homes = { directory: folder.path, home: new MemoryHome(), world: testClock() };
  ledger = await openTestLedger(homes);
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

async function writeLargeBlocks(): Promise<void> {
  const made = await ledger.createOrganization(CALLER, { name: 'acme' });
  if (!made.ok) throw new Error(made.message);
  const value = new Uint8Array(60 * 1_024);
  for (let n = 0; n < LARGE_BLOCKS; n += 1) {
    const operations = Array.from({ length: 10 }, (_, at) => ({
      setEntity: { key: `${n}-${at}`, value },
    }));
    const write = { organization: made.id, clientId: 'app', idempotencyKey: uuid(n), operations };
    expect(await ledger.write(CALLER, write)).toMatchObject({ ok: true });
  }
}

const sizeOf = (height: number) =>
  ledger.getBlock(height)?.texts.reduce((sum, { length }) => sum + length, 0) ?? 0;

describe('headers of large blocks', () => {
  it('come in answers for which only so much is read, and without a gap', async () => {
    await writeLargeBlocks();
    const tip = ledger.getTip().header.height;
    const heights: number[] = [];
    let answers = 0;
    while (heights.length < tip) {
      const headers = await ledger.getHeaders(heights.length + 1, 1_000);
      expect(headers.length).toBeGreaterThan(0);
      const read = headers.map(({ height }) => sizeOf(height));
      expect(read.reduce((sum, size) => sum + size, 0)).toBeLessThan(17 * MIB);
      heights.push(...headers.map(({ height }) => height));
      answers += 1;
    }
    expect(heights).toEqual(Array.from({ length: tip }, (_, at) => at + 1));
    expect(answers).toBeGreaterThan(1);
  });

  it('let others have their turn while they are read', async () => {
    await writeLargeBlocks();
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    await ledger.getHeaders(1, 1_000);
    isDone = true;
    expect(turns).toBeGreaterThan(4);
  });
});
