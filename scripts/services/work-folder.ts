import { spawn } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Account } from './account.ts';

/**
 * A temporary folder for one server, with a watchdog beside it.
 *
 * The watchdog is a shell that waits for the end of a pipe only this process holds. When this process dies, in
 * whatever way, the pipe ends, and the shell kills the servers named by the folder's pid files and removes it.
 */
export interface WorkFolder {
  readonly path: string;
  readonly pids: string;
  remove(): void;
}

const WATCHDOG = `
cat >/dev/null
for file in "$1"/pids/*; do
  [ -e "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null
done
sleep 0.5
rm -rf "$1"
`;

export function createWorkFolder(name: string, owner: Account | null): WorkFolder {
  const path = mkdtempSync(join(tmpdir(), `onceward-${name}-`));
  const pids = join(path, 'pids');
  mkdirSync(pids);
  if (owner !== null) chownSync(path, owner.uid, owner.gid);
  const watchdog = spawn('/bin/sh', ['-c', WATCHDOG, 'watchdog', path], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  watchdog.unref();
  (watchdog.stdin as unknown as { unref(): void }).unref();
  return {
    path,
    pids,
    remove() {
      watchdog.kill('SIGKILL');
      rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}
