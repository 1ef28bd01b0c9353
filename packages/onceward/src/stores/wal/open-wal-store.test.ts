import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openWalStore } from './index.ts';

let folder = '';

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'onceward-open-'));
});

afterEach(() => rm(folder, { recursive: true }));

describe('opening a wal store', () => {
  it('[H18] names the path when it is not a folder', async () => {
    const file = join(folder, 'file');
    await writeFile(file, 'something');
    for (const directory of [file, join(file, 'below')]) {
      await expect(openWalStore({ directory })).rejects.toMatchObject({
        code: 'ONCE_INVALID_CONFIG',
        message: expect.stringContaining(directory),
      });
    }
  });

  it('[H18] refuses settings that are out of range, by name', async () => {
    const wrong = [{ maxRecordBytes: 0 }, { maxRecordBytes: 1.5 }, { segmentBytes: 10 }];
    for (const setting of wrong) {
      await expect(openWalStore({ directory: folder, ...setting })).rejects.toMatchObject({
        code: 'ONCE_INVALID_CONFIG',
        message: expect.stringContaining(Object.keys(setting)[0] as string),
      });
    }
    await expect(openWalStore({ directory: '' })).rejects.toMatchObject({
      code: 'ONCE_INVALID_CONFIG',
    });
    expect(await readdir(folder)).toEqual([]);
  });

  it('leaves a folder with files of another program as it is', async () => {
    await writeFile(join(folder, '000000000001.log'), 'a log, but not of ours\n'.repeat(50));
    await expect(openWalStore({ directory: folder })).rejects.toMatchObject({
      code: 'ONCE_STORE_VERSION',
    });
    expect(await readdir(folder)).toEqual(['000000000001.log']);
  });

  it('makes missing folders, and removes what a life that died was preparing', async () => {
    const directory = join(folder, 'a', 'b');
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, 'spare.new'), Buffer.alloc(4_096));
    const store = await openWalStore({ directory });
    expect(await readdir(directory)).not.toContain('spare.new');
    await store.close();
    await (await openWalStore({ directory: join(folder, 'c', 'd', 'e') })).close();
  });

  it('[E4] wakes who waits for a record that a sweep forgets', async () => {
    const store = await openWalStore({ directory: folder });
    const id = { scope: 's', key: 'k' };
    const next = { bytes: new Uint8Array(1), state: 'committed', dueAt: 5 } as const;
    const result = await store.swap(id, null, next);
    const waiting = store.changed(
      id,
      result.won ? result.revision : 0,
      new AbortController().signal,
    );
    expect(await store.forgetDue(5, 10)).toBe(1);
    await waiting;
    await store.close();
  });

  it('[E9] refuses ids that it could not keep apart, and ids that are too long', async () => {
    const store = await openWalStore({ directory: folder });
    const next = { bytes: new Uint8Array(1), state: 'pending', dueAt: null } as const;
    const ids = [
      { scope: 's', key: '\ud800' },
      { scope: 's', key: 'é'.repeat(600) },
      { scope: 'x'.repeat(1_025), key: 'k' },
    ];
    for (const id of ids) {
      const refusal = { code: 'ONCE_INVALID_INPUT', applied: 'no' };
      await expect(store.swap(id, null, next)).rejects.toMatchObject(refusal);
      await expect(store.read(id)).rejects.toMatchObject(refusal);
    }
    expect(await store.count()).toMatchObject({ pending: 0 });
    await store.close();
  });
});
