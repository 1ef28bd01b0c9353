import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openWalStore } from './index.ts';

const LOADER = new URL('../../../../../scripts/typescript.mjs', import.meta.url).href;
const FIXTURE = fileURLToPath(new URL('./wal-life.fixture.ts', import.meta.url));

let directory = '';
let children: ChildProcess[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'onceward-kill-'));
  children = [];
});

afterEach(async () => {
  await Promise.all(children.map(kill));
  await rm(directory, { recursive: true });
});

interface Life {
  readonly child: ChildProcess;
  readonly lines: string[];
  /** The first line: `open …` or `refused …`. */
  readonly first: Promise<string>;
}

function start(name: string): Life {
  const args = ['--conditions=onceward-source', '--import', LOADER, FIXTURE, directory, name];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout });
  const first = new Promise<string>((resolve, reject) => {
    reader.on('line', (line) => {
      lines.push(line);
      resolve(line);
    });
    reader.on('close', () => reject(new Error('The process ended without a word.')));
  });
  return { child, lines, first };
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 2_000 && !condition(); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect(condition()).toBe(true);
}

describe('wal store and kill -9', () => {
  it('[E2] keeps every acknowledged swap of processes killed in the midst of writing', async () => {
    const known = new Map<string, { revision: number; text: string }>();
    let highest = 0;
    for (let round = 0; round < 4; round++) {
      const life = start(`life-${round}`);
      expect(await life.first).toMatch(/^open /);
      const firstRevision = Number((await life.first).split(' ')[1]);
      expect(firstRevision).toBeGreaterThan(highest);
      await until(() => life.lines.length > 1_000 * (round + 1));
      await kill(life.child);
      for (const line of life.lines.slice(1)) {
        const [key = '', revision, text] = line.split(' ');
        // The last line may have been cut by the kill.
        if (text === undefined) continue;
        known.set(key, { revision: Number(revision), text });
        highest = Math.max(highest, Number(revision));
      }
    }
    const store = await openWalStore({ directory });
    expect(store.damage).toEqual([]);
    expect(known.size).toBeGreaterThan(1_000);
    for (const [key, { revision, text }] of known) {
      const stored = await store.read({ scope: 'killed', key });
      const found = Buffer.from(stored?.bytes ?? []).toString();
      // The swap after the last acknowledged one may have happened, too.
      if (text === 'claimed' && found === `settled-${key}`) continue;
      expect({ key, revision: stored?.revision, text: found.startsWith(text) }).toEqual({
        key,
        revision,
        text: true,
      });
    }
    await store.close();
  });
});

describe('the lock of a store', () => {
  it('[E1] keeps a second process and a second opening out while the first lives', async () => {
    const holder = start('holder');
    expect(await holder.first).toMatch(/^open /);
    expect(await start('second').first).toBe('refused ONCE_STORE_LOCKED');
    await expect(openWalStore({ directory })).rejects.toMatchObject({ code: 'ONCE_STORE_LOCKED' });
    await kill(holder.child);
    const store = await openWalStore({ directory });
    await expect(openWalStore({ directory })).rejects.toMatchObject({ code: 'ONCE_STORE_LOCKED' });
    await store.close();
    await (await openWalStore({ directory })).close();
  });

  it('[E1] of several processes that race for the lock of a dead one, one gets it', async () => {
    for (let round = 0; round < 3; round++) {
      const holder = start(`holder-${round}`);
      expect(await holder.first).toMatch(/^open /);
      await kill(holder.child);
      const rivals = Array.from({ length: 5 }, (_, index) => start(`rival-${round}-${index}`));
      const answers = await Promise.all(rivals.map(({ first }) => first));
      expect(answers.filter((answer) => answer.startsWith('open '))).toHaveLength(1);
      expect(answers.filter((answer) => answer === 'refused ONCE_STORE_LOCKED')).toHaveLength(4);
      await Promise.all(rivals.map(({ child }) => kill(child)));
    }
  });

  it('[E1] is held by a process of another container for as long as that lives', async () => {
    const holder = start('elsewhere');
    expect(await holder.first).toMatch(/^open /);
    const [name = ''] = (await readdir(directory)).filter((one) => /^lock\.\d+$/.test(one));
    const lock = JSON.parse(await readFile(join(directory, name), 'utf8')) as object;
    // Its process id now says nothing to us: neither that it lives nor that it does not.
    const elsewhere = { ...lock, namespace: 'pid:[1]', pid: 999_999_999 };
    await writeFile(join(directory, name), JSON.stringify(elsewhere));
    await expect(openWalStore({ directory })).rejects.toMatchObject({ code: 'ONCE_STORE_LOCKED' });
    await kill(holder.child);
    await (await openWalStore({ directory })).close();
    const left = (await readdir(directory)).filter((one) => one.startsWith('lock'));
    expect(left).toHaveLength(1);
  });

  it('[E1] works in folders whose path is longer than a socket may have', async () => {
    const deep = join(directory, 'deep'.repeat(20), 'deeper'.repeat(20));
    const store = await openWalStore({ directory: deep });
    await expect(openWalStore({ directory: deep })).rejects.toMatchObject({
      code: 'ONCE_STORE_LOCKED',
    });
    await store.close();
    await (await openWalStore({ directory: deep })).close();
    const left = (await readdir(deep)).filter((one) => one.startsWith('lock'));
    expect(left).toHaveLength(1);
  });

  it('[E1] is not held by a process id that now belongs to another process', async () => {
    await (await openWalStore({ directory })).close();
    const [name = ''] = (await readdir(directory)).filter((one) => /^lock\.\d+$/.test(one));
    const boot = process.platform === 'linux' ? await bootId() : '';
    const namespace = process.platform === 'linux' ? await pidNamespace() : '';
    const recycled = { pid: process.ppid, startedAt: '1', boot, namespace };
    await writeFile(join(directory, name), JSON.stringify(recycled));
    await (await openWalStore({ directory })).close();
    const rebooted = { ...recycled, pid: process.pid, boot: 'another boot' };
    const [current = ''] = (await readdir(directory)).filter((one) => /^lock\.\d+$/.test(one));
    await writeFile(join(directory, current), JSON.stringify(rebooted));
    await (await openWalStore({ directory })).close();
  });
});

async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

async function pidNamespace(): Promise<string> {
  return readlink('/proc/self/ns/pid');
}
