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
    expect(checkEnvironment(path, 'all pages')).toBeNull();
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
    if (checkEnvironment(path, 'all pages') !== null) found += 1;
  }
  // The others are free, or within a long value, whose checksum is its reader's business.
  expect(found).toBeGreaterThan(20);
  writeFileSync(file, whole.subarray(0, whole.length / 2));
  expect(checkEnvironment(path, 'all pages')).toMatch(/page \d+ of the database/);
  rmSync(path, { recursive: true });
}, 60_000);

/** Where in a file the numbers of free pages are: those that stand in the leaves of the list itself. */
function freeWords(bytes: Buffer): number[] {
  const at = (page: number) => page * 4_096;
  const transaction = (page: number) => bytes.readBigUInt64LE(at(page) + 152);
  const meta = transaction(0) > transaction(1) ? 0 : 1;
  const leaf = at(Number(bytes.readBigUInt64LE(at(meta) + 88)));
  expect(bytes.readUInt16LE(leaf + 18)).toBe(2);
  const words: number[] = [];
  for (let node = 0; node < bytes.readUInt16LE(leaf + 20) / 2; node += 1) {
    const start = leaf + 24 + bytes.readUInt16LE(leaf + 24 + 2 * node);
    if (bytes.readUInt16LE(start + 4) !== 0) continue;
    const value = start + 8 + bytes.readUInt16LE(start + 6);
    const count = Number(bytes.readBigUInt64LE(value));
    for (let word = 1; word <= count; word += 1) words.push(value + 8 * word);
  }
  return words;
}

it('[L9] finds a page that is free twice, and one that is neither free nor used', async () => {
  const path = mkdtempSync(join(tmpdir(), 'onceward-lmdb-'));
  const roll = dice(13);
  await churn(path, roll);
  await churn(path, roll);
  const file = join(path, 'data.mdb');
  const whole = readFileSync(file);
  const words = freeWords(whole).filter((at) => whole.readBigInt64LE(at) > 0n);
  const [one, other] = words as [number, number];
  const change = (at: number, word: bigint) => {
    const changed = Buffer.from(whole);
    changed.writeBigInt64LE(word, at);
    writeFileSync(file, changed);
  };
  change(one, whole.readBigInt64LE(other));
  expect(checkEnvironment(path, 'pages in use')).toMatch(/a bad list of free pages/);
  change(one, 0n);
  expect(checkEnvironment(path, 'all pages')).toMatch(/is neither used nor free/);
  expect(checkEnvironment(path, 'pages in use')).toBeNull();
  writeFileSync(file, whole);
  expect(checkEnvironment(path, 'all pages')).toBeNull();
  rmSync(path, { recursive: true });
});
