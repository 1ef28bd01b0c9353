import { randomBytes } from 'node:crypto';
import { promises as fs } from 'node:fs';
import { join } from 'node:path';
import { StoreError } from '../engine/errors.ts';
import type { DirectoryLock } from './file-system.ts';
import { answersAt, type LivenessSocket, openLivenessSocket } from './liveness-socket.ts';

/**
 * One process at a time may have a folder open.
 *
 * Locks are files `lock.1`, `lock.2`, …; the highest number counts. An opener that finds the highest released or
 * its holder dead links the next number, which only one of many can do; then it removes the lower ones. The highest is
 * never removed, only marked as released: so a slow opener that links a number which has already been passed
 * sees a higher one afterwards and steps back.
 *
 * A holder is named by process id, the start time of that process and the boot, so that a recycled id or a
 * rebooted machine does not keep a dead lock alive. A holder in another container, where the id means nothing, is asked
 * through its socket.
 */
const LOCK_NAME = /^lock\.(\d{1,15})$/;
const RELEASED = 'released';
const MAX_ATTEMPTS = 100;

interface Holder {
  readonly pid: number;
  readonly startedAt: string;
  readonly boot: string;
  readonly namespace: string;
  readonly socket: string | null;
}

/** What this process holds; its own live lock must also keep itself out. */
const held = new Set<string>();

export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const unique = `${process.pid}.${randomBytes(6).toString('hex')}`;
  const candidate = join(directory, `lock-candidate.${unique}`);
  // It must answer before anyone can see the lock.
  const socket = await openLivenessSocket(directory, `lock-holder.${unique}`);
  try {
    const self = await describeSelf(socket?.name ?? null);
    await fs.writeFile(candidate, JSON.stringify(self), { flag: 'wx', mode: 0o600 });
    const own = await takeLock(directory, candidate, self);
    return { release: () => release(own, socket) };
  } catch (error) {
    await socket?.close();
    throw error;
  } finally {
    await fs.rm(candidate, { force: true });
  }
}

/** Rejects with `ONCE_STORE_LOCKED` if a process has the folder open. Writes nothing, and locks nothing. */
export async function assertUnlocked(directory: string): Promise<void> {
  const highest = await findHighest(directory);
  if (highest > 0) await findDeadHolder(directory, `lock.${highest}`, await describeSelf(null));
}

async function takeLock(directory: string, candidate: string, self: Holder): Promise<string> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const highest = await findHighest(directory);
    const before = highest > 0 ? await findDeadHolder(directory, `lock.${highest}`, self) : null;
    const own = join(directory, `lock.${highest + 1}`);
    if (!(await linkIfAbsent(candidate, own))) continue;
    if ((await findHighest(directory)) !== highest + 1) {
      await fs.rm(own, { force: true });
      continue;
    }
    held.add(own);
    await removeLower(directory, highest + 1);
    if (before?.socket) await fs.rm(join(directory, before.socket), { force: true });
    return own;
  }
  throw locked(
    directory,
    `it changed hands ${MAX_ATTEMPTS} times while this process tried to get it`,
  );
}

async function release(own: string, socket: LivenessSocket | null): Promise<void> {
  if (!held.delete(own)) return;
  // Replaced in one step, so that no reader sees half of it.
  const released = `${own}.released`;
  await fs.writeFile(released, RELEASED, { mode: 0o600 });
  await fs.rename(released, own);
  await socket?.close();
}

async function findHighest(directory: string): Promise<number> {
  let highest = 0;
  for (const name of await fs.readdir(directory)) {
    const match = LOCK_NAME.exec(name);
    if (match) highest = Math.max(highest, Number(match[1]));
  }
  return highest;
}

async function removeLower(directory: string, than: number): Promise<void> {
  for (const name of await fs.readdir(directory)) {
    const match = LOCK_NAME.exec(name);
    if (match && Number(match[1]) < than) await fs.rm(join(directory, name), { force: true });
  }
}

async function linkIfAbsent(existing: string, path: string): Promise<boolean> {
  try {
    await fs.link(existing, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** The dead holder of a lock, if it left its name; rejects if the holder is alive. */
async function findDeadHolder(
  directory: string,
  name: string,
  self: Holder,
): Promise<Holder | null> {
  const path = join(directory, name);
  const text = await readIfPresent(path);
  if (text === null || text === RELEASED) return null;
  if (held.has(path)) throw locked(path, 'this process already has it open');
  const holder = parseHolder(text);
  // A lock file is linked only when it is complete: one that cannot be read was damaged, and proves no holder.
  if (holder === null || holder.boot !== self.boot) return holder;
  if (holder.namespace !== self.namespace) {
    await assertGoneElsewhere(directory, path, holder);
  } else if ((await startTimeOf(holder.pid)) === holder.startedAt) {
    throw locked(path, `process ${holder.pid} has it open`);
  }
  return holder;
}

async function assertGoneElsewhere(directory: string, path: string, holder: Holder): Promise<void> {
  const who = `process ${holder.pid} of another container`;
  if (holder.socket === null) {
    throw locked(path, `${who} has it; once that container has ended, remove this file`);
  }
  if (await answersAt(directory, holder.socket)) throw locked(path, `${who} has it open`);
}

function locked(path: string, why: string): StoreError {
  return new StoreError('ONCE_STORE_LOCKED', `Cannot lock ${path}: ${why}.`, { applied: 'no' });
}

function parseHolder(text: string): Holder | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return null;
    const { pid, startedAt, boot, namespace, socket } = value as Record<string, unknown>;
    if (typeof pid !== 'number' || typeof startedAt !== 'string') return null;
    if (typeof boot !== 'string' || typeof namespace !== 'string') return null;
    // It is joined to the folder's path, so it must be nothing but a name.
    const isName = typeof socket === 'string' && /^lock-holder\.[\w.]+$/.test(socket);
    return { pid, startedAt, boot, namespace, socket: isName ? socket : null };
  } catch {
    return null;
  }
}

async function describeSelf(socket: string | null): Promise<Holder> {
  const boot = (await readIfPresent('/proc/sys/kernel/random/boot_id')) ?? '';
  const namespace = await fs.readlink('/proc/self/ns/pid').catch(() => '');
  const startedAt = (await startTimeOf(process.pid)) ?? '';
  return { pid: process.pid, startedAt, boot: boot.trim(), namespace, socket };
}

/** When the process started, in ticks since boot; `null` if there is no such process. */
async function startTimeOf(pid: number): Promise<string | null> {
  const stat = await readIfPresent(`/proc/${pid}/stat`);
  if (stat !== null) {
    // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const isZombie = fields[0] === 'Z';
    return isZombie ? null : (fields[19] ?? '');
  }
  return isRunning(pid) ? '' : null;
}

/** For systems without /proc, where a recycled process id cannot be detected. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function readIfPresent(path: string): Promise<string | null> {
  try {
    return await fs.readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return null;
    throw error;
  }
}
