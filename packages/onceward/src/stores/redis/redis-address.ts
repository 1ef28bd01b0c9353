import { domainToASCII } from 'node:url';
import { invalidConfig } from '../invalid-config.ts';

/** A server, and as whom to speak to it. */
export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
  readonly username: string;
  readonly password: string;
  readonly database: number;
}

const FORM = 'redis://user:password@host:port/database, or rediss:// for TLS';

/** What is refused is not repeated in the error: it may hold a password. */
export function parseRedisUrl(text: string): RedisAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) {
    throw invalidConfig(
      `url cannot be read; write ${FORM}, and %2F %3F %23 for / ? # in a password`,
    );
  }
  if (!['redis:', 'rediss:'].includes(url.protocol)) {
    throw invalidConfig(`url is not one of Redis; write ${FORM}`);
  }
  if (url.hostname === '') throw invalidConfig(`url names no host; write ${FORM}`);
  if (url.search !== '' || url.hash !== '') {
    throw invalidConfig(
      `url has something behind the database, which means nothing here; write ${FORM}`,
    );
  }
  const database = /^\/?(\d{0,5})$/.exec(url.pathname)?.[1];
  if (database === undefined)
    throw invalidConfig(`the database in url is not a number; write ${FORM}`);
  return {
    host: hostIn(url.hostname),
    port: url.port === '' ? 6_379 : Number(url.port),
    isSecure: url.protocol === 'rediss:',
    username: plain('user', url.username),
    password: plain('password', url.password),
    database: Number(database),
  };
}

/** An address of IPv6 is in brackets here, and nowhere else. Of a scheme that URL does not know, names are escaped. */
function hostIn(hostname: string): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  const host = domainToASCII(plain('host', hostname));
  if (host === '') throw invalidConfig(`the host in url is not the name of one; write ${FORM}`);
  return host;
}

function plain(what: string, escaped: string): string {
  try {
    return decodeURIComponent(escaped);
  } catch {
    throw invalidConfig(`the ${what} in url has a % that escapes nothing; write it as %25`);
  }
}
