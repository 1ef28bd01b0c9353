import { CommandFailure } from './exit-code.ts';

const REASONS: Record<string, string> = {
  EADDRINUSE: 'another program is using it',
  EACCES: 'this user may not use it',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'the host name leads nowhere',
};

/** Turns what the system says about an address into one line that names the settings. */
export function listenFailure(
  error: unknown,
  host: string,
  port: number,
  remedy = 'choose another with HOST and PORT (--host, --port)',
): unknown {
  const { code = '' } = error as NodeJS.ErrnoException;
  const reason = REASONS[code];
  if (reason === undefined) return error;
  return new CommandFailure(
    'cannotListen',
    `cannot listen on ${host} port ${port}: ${reason}; ${remedy}`,
    error,
  );
}

export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
