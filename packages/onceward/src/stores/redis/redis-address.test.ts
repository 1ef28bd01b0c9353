import { describe, expect, it } from 'vitest';
import { parseRedisUrl } from './redis-address.ts';

const PLAIN = { isSecure: false, username: '', password: '', database: 0 };

describe('the URL of a Redis', () => {
  it.each([
    ['redis://localhost', { ...PLAIN, host: 'localhost', port: 6_379 }],
    ['redis://10.0.0.1:6380/', { ...PLAIN, host: '10.0.0.1', port: 6_380 }],
    ['redis://[::1]:7000/3', { ...PLAIN, host: '::1', port: 7_000, database: 3 }],
    ['rediss://cache.example', { ...PLAIN, host: 'cache.example', port: 6_379, isSecure: true }],
    ['redis://höst.example', { ...PLAIN, host: 'xn--hst-sna.example', port: 6_379 }],
    ['redis://:p%40ss%2F@h', { ...PLAIN, host: 'h', port: 6_379, password: 'p@ss/' }],
    ['redis://ada:pass@h', { ...PLAIN, host: 'h', port: 6_379, username: 'ada', password: 'pass' }],
  ])('%s', (url, address) => {
    expect(parseRedisUrl(url)).toEqual(address);
  });

  it.each([
    ['nothing', '', 'cannot be read'],
    ['a password that is not escaped', 'redis://:secret#1@h', '%23'],
    ['a port that is none', 'redis://:secret@h:99999', 'cannot be read'],
    ['a host alone', 'localhost:6379', 'not one of Redis'],
    ['another scheme', 'http://:secret@localhost', 'not one of Redis'],
    ['no host', 'redis:///0', 'names no host'],
    ['a database that is no number', 'redis://:secret@h/orders', 'not a number'],
    ['a path', 'redis://:secret@h/0/1', 'not a number'],
    ['parameters', 'redis://:secret@h/0?family=6', 'behind the database'],
    ['a host that is none', 'redis://:secret@a%20b', 'host in url'],
    ['an escape that is none', 'redis://:secret%@h', 'password in url'],
  ])('is refused where it is %s, without repeating it', (_what, url, why) => {
    const parse = () => parseRedisUrl(url);
    expect(parse).toThrow(why);
    expect(parse).toThrow(expect.objectContaining({ code: 'ONCE_INVALID_CONFIG' }));
    expect(parse).not.toThrow('secret');
  });
});
