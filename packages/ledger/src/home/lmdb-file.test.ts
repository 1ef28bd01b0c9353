import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lmdb';
import { expect, it } from 'vitest';
import { checkEnvironment } from './lmdb-environment.ts';
import { LmdbFile } from './lmdb-file.ts';

/** Numbers that look random and are the same in every run. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

async function churn(path: string, roll: (below: number) => number): Promise<void> {
  const environment = open({ path, maxDbs: 8, overlappingSync: false });
  const texts = environment.openDB<Buffer, number>({ name: 'texts', encoding: 'binary' });
  const pages = environment.openDB<string, number>({
    name: 'pages',
    keyEncoding: 'uint32',
    encoding: 'string',
  });
  for (let batch = 0; batch < 8; batch += 1) {
    await environment.batch(() => {
      for (let n = roll(60); n > 0; n -= 1) {
        const key = roll(400);
        if (roll(3) === 0) void texts.remove(key);
        else void texts.put(key, Buffer.alloc(roll(12) === 0 ? roll(40_000) : roll(900), key));
        void pages.put(roll(300), 'x'.repeat(roll(2_000)));
      }
    });
  }
  await environment.close();
}

it('[L9] finds nothing wrong with any file that LMDB wrote, and reads what it reads', async () => {
  const path = mkdtempSync(join(tmpdir(), 'onceward-lmdb-'));
  const roll = dice(7);
  for (let round = 0; round < 30; round += 1) {
    await churn(path, roll);
    expect(checkEnvironment(path)).toBeNull();
  }
  const environment = open({ path, maxDbs: 8, readOnly: true });
  const texts = environment.openDB<Buffer, number>({ name: 'texts', encoding: 'binary' });
  const expected = [...texts.getRange({})].map(({ value }) => Buffer.from(value));
  await environment.close();
  const file = LmdbFile.open(join(path, 'data.mdb'));
  expect([...(file?.entries('texts') ?? [])].map(({ value }) => value)).toEqual(expected);
  file?.close();
  rmSync(path, { recursive: true });
}, 60_000);

it('[L9] finds every garbled page of a tree', async () => {
  const path = mkdtempSync(join(tmpdir(), 'onceward-lmdb-'));
  const roll = dice(11);
  await churn(path, roll);
  const file = join(path, 'data.mdb');
  const whole = readFileSync(file);
  let found = 0;
  for (let page = 0; page * 4_096 < whole.length; page += 1) {
    const garbled = Buffer.from(whole);
    for (let at = 0; at < 4_096; at += 1) garbled[page * 4_096 + at] = roll(256);
    writeFileSync(file, garbled);
    if (checkEnvironment(path) !== null) found += 1;
  }
  // The others are free, or within a long value, whose checksum is its reader's business.
  expect(found).toBeGreaterThan(20);
  writeFileSync(file, whole.subarray(0, whole.length / 2));
  expect(checkEnvironment(path)).toMatch(/page \d+ of the database/);
  rmSync(path, { recursive: true });
}, 60_000);
