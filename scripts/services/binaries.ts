import { execFileSync } from 'node:child_process';
import { accessSync, constants, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Debian keeps PostgreSQL's server programs off PATH, one folder per major version. */
const POSTGRES_ROOT = '/usr/lib/postgresql';

/** The Debian package that brings each program. */
const PACKAGES = {
  'redis-server': 'redis-server',
  'valkey-server': 'valkey-server',
  postgres: 'postgresql',
  initdb: 'postgresql',
  pg_basebackup: 'postgresql',
  pg_isready: 'postgresql',
  pgbench: 'postgresql',
  pgbouncer: 'pgbouncer',
  etcd: 'etcd-server',
  chromium: 'chromium',
  prometheus: 'prometheus',
  promtool: 'prometheus',
  wrk: 'wrk',
  openssl: 'openssl',
} as const;

export type Program = keyof typeof PACKAGES;

/** Where the program is; installs its package first when it is missing and this process may do so. */
export function locate(program: Program): string {
  const found = find(program);
  if (found !== null) return found;
  install(PACKAGES[program]);
  const installed = find(program);
  if (installed === null) {
    throw new Error(`${program} is still missing after installing ${PACKAGES[program]}`);
  }
  return installed;
}

/** Whether the program is here, or this machine's package sources have it. */
export function canLocate(program: Program): boolean {
  if (find(program) !== null) return true;
  try {
    const policy = execFileSync('apt-cache', ['policy', PACKAGES[program]], { encoding: 'utf8' });
    return /Candidate: \d/.test(policy);
  } catch {
    return false;
  }
}

function find(program: Program): string | null {
  const folders = [...postgresFolders(), ...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];
  for (const folder of folders) {
    const path = join(folder, program);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  return null;
}

function postgresFolders(): string[] {
  try {
    const versions = readdirSync(POSTGRES_ROOT).sort((a, b) => Number(b) - Number(a));
    return versions.map((version) => join(POSTGRES_ROOT, version, 'bin'));
  } catch {
    return [];
  }
}

function install(name: string): void {
  if (process.getuid?.() !== 0) {
    throw new Error(`${name} is not installed; install it with: sudo apt-get install ${name}`);
  }
  const options = {
    stdio: 'pipe' as const,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  };
  try {
    execFileSync('apt-get', ['update', '-q'], options);
    // A lock timeout, because several test files may find the same package missing at once.
    execFileSync(
      'apt-get',
      ['-o', 'DPkg::Lock::Timeout=300', 'install', '-y', '-q', '--no-install-recommends', name],
      options,
    );
  } catch (cause) {
    throw new Error(`${name} is not installed, and apt-get could not install it`, { cause });
  }
}
