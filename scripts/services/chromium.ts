import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { locate } from './binaries.ts';
import { createWorkFolder } from './work-folder.ts';

/** A real browser with a profile of its own, which can be killed and started again over the same profile. */
export interface ChromiumBrowser {
  /** Where a driver connects (`chromium.connectOverCDP`); another one after each start. */
  readonly endpoint: string;
  start(): Promise<void>;
  /** kill -9 of the browser and all its tabs; the profile stays as it is on disk. */
  kill(): Promise<void>;
  /** Kills it and removes the profile. */
  remove(): Promise<void>;
}

const START_LIMIT_MS = 60_000;

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
  '--remote-debugging-port=0',
];

/** Finds Chromium, or installs it where this process may, and starts it with an empty profile. */
export async function startChromium(): Promise<ChromiumBrowser> {
  const program = locate('chromium');
  const folder = createWorkFolder('chromium', null);
  const profile = join(folder.path, 'profile');
  const portFile = join(profile, 'DevToolsActivePort');
  const pidFile = join(folder.pids, 'chromium');
  mkdirSync(profile);
  let running: ChildProcess | null = null;
  let endpoint = '';

  const browser: ChromiumBrowser = {
    get endpoint() {
      return endpoint;
    },
    async start() {
      rmSync(portFile, { force: true });
      // What a killed browser leaves behind would make the next one believe that the profile is in use.
      for (const name of ['SingletonLock', 'SingletonCookie', 'SingletonSocket']) {
        rmSync(join(profile, name), { force: true });
      }
      const child = spawn(program, [...FLAGS, `--user-data-dir=${profile}`, 'about:blank'], {
        stdio: 'ignore',
        detached: true,
      });
      running = child;
      if (child.pid === undefined) throw new Error(`${program} could not be started`);
      writeFileSync(pidFile, String(child.pid));
      endpoint = `http://127.0.0.1:${await readPort(portFile, child)}`;
    },
    async kill() {
      const child = running;
      if (child?.pid === undefined) return;
      running = null;
      // It leads a process group of its own, which holds its tabs too.
      if (child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
      while (child.exitCode === null && child.signalCode === null) await sleep(10);
      rmSync(pidFile, { force: true });
    },
    async remove() {
      await browser.kill();
      folder.remove();
    },
  };
  await browser.start();
  return browser;
}

async function readPort(file: string, child: ChildProcess): Promise<string> {
  for (const limit = performance.now() + START_LIMIT_MS; performance.now() < limit; ) {
    if (child.exitCode !== null) throw new Error(`chromium ended with exit code ${child.exitCode}`);
    try {
      const [port] = readFileSync(file, 'utf8').split('\n');
      if (port) return port;
    } catch {
      // Not written yet.
    }
    await sleep(25);
  }
  throw new Error(`chromium did not open its debugging port within ${START_LIMIT_MS} ms`);
}
