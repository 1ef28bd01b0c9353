import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { ROOT, runChild } from './child.mjs';

const LOCK = `${ROOT}/.data/install.lock`;
const LOCK_POLL_MS = 250;
const LOCK_WAIT_MS = 10 * 60_000;

/**
 * `npm ci` insists that the lock lists the optional packages of every platform, which a registry that mirrors only
 * some of them cannot satisfy. This keeps the lock as it is, and what was installed is compared with it afterwards.
 */
const INSTALL = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'];

/**
 * Makes the installed packages be those of package-lock.json. A fresh clone is installed; a tree that npm has already
 * brought up to date is left alone, so that nothing is deleted under a program that is running.
 */
export async function ensureInstalled() {
  if (isInstalled()) return;
  await acquireLock();
  try {
    if (isInstalled()) return;
    console.log('Installing dependencies …');
    const code = await runChild('npm', INSTALL);
    if (code !== 0) throw new Error(`npm ended with exit code ${code}; its output is above.`);
    if (!isInstalled()) {
      throw new Error(
        'package-lock.json does not fit package.json: run `npm install`, commit both.',
      );
    }
  } finally {
    rmSync(LOCK, { force: true });
  }
}

/** npm writes down what it installed when it has finished; a half-done install has no such file. */
function isInstalled() {
  const wanted = readJson(`${ROOT}/package-lock.json`)?.packages;
  const present = readJson(`${ROOT}/node_modules/.package-lock.json`)?.packages;
  if (wanted === undefined) throw new Error('package-lock.json is missing or unreadable.');
  if (present === undefined) return false;
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.includes('node_modules/')) return true;
    const found = present[path];
    // Optional packages for other platforms are listed but never installed.
    if (found === undefined) return entry.optional === true;
    return found.version === entry.version && found.integrity === entry.integrity;
  });
}

async function acquireLock() {
  mkdirSync(`${ROOT}/.data`, { recursive: true });
  const giveUpAt = Date.now() + LOCK_WAIT_MS;
  while (Date.now() < giveUpAt) {
    try {
      writeFileSync(LOCK, String(process.pid), { flag: 'wx' });
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    breakStaleLock();
    await sleep(LOCK_POLL_MS);
  }
  throw new Error(
    `Another install has held ${LOCK} for ten minutes; remove it if none is running.`,
  );
}

/** Moves the lock of a dead process away. Only one of several movers finds the file; the others find it missing. */
function breakStaleLock() {
  const holder = readText(LOCK);
  if (holder === undefined || holder === '' || isAlive(Number(holder))) return;
  const aside = `${LOCK}.${process.pid}`;
  try {
    renameSync(LOCK, aside);
  } catch {
    return;
  }
  // If a new holder came between the look and the move, the lock is its own: put it back.
  if (readText(aside) !== holder) renameSync(aside, LOCK);
  else rmSync(aside, { force: true });
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function readText(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await ensureInstalled();
