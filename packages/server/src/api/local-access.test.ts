import type { FastifyRequest } from 'fastify';
import { describe, expect, it } from 'vitest';
import { hostCheck } from './host-check.ts';
import { localAccess } from './local-access.ts';

const socket = { remoteAddress: '127.0.0.1', localAddress: '10.0.0.5' };
const request = { socket, headers: { host: 'localhost' } } as unknown as FastifyRequest;

describe('a server that other machines reach', () => {
  it.each(['0.0.0.0', '::', '10.0.0.5', 'build-host'])(
    'asks everybody for a credential at %s',
    (host) => {
      expect(localAccess({ host, localAccess: true })(request)?.message).toContain('HOST');
    },
  );

  it.each(['127.0.0.1', '127.0.0.2', '::1', 'localhost'])(
    'is not one that listens on %s',
    (host) => {
      expect(localAccess({ host, localAccess: true })(request)).toBeUndefined();
    },
  );

  it('is known under any name until it is given some, and always under its address', () => {
    const open = hostCheck({ host: '0.0.0.0', allowedHosts: [] });
    expect(open({ host: 'any.example', socket })).toBeUndefined();
    const named = hostCheck({ host: '0.0.0.0', allowedHosts: ['api.example'] });
    expect(named({ host: 'api.example:443', socket })).toBeUndefined();
    expect(named({ host: '10.0.0.5:8080', socket })).toBeUndefined();
    expect(named({ host: undefined, socket })).toBeUndefined();
    expect(named({ host: 'any.example', socket })?.status).toBe(421);
    expect(named({ host: '10.0.0.6', socket })?.status).toBe(421);
  });
});
