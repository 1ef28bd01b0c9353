import { execFileSync } from 'node:child_process';

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** PostgreSQL refuses to run as root: the account to run it under, or `null` when this process is not root. */
export function postgresAccount(): Account | null {
  if (process.getuid?.() !== 0) return null;
  const read = (flag: string) =>
    Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }).trim());
  return { uid: read('-u'), gid: read('-g') };
}
