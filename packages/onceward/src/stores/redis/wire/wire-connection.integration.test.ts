import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import {
  type AddressInfo,
  createServer,
  type LookupFunction,
  type Server,
  type Socket,
} from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createClient } from '@redis/client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { locate, type RedisServer, startRedis } from '../../../../../../scripts/services/index.ts';
import { openRedisStore, type RedisStoreOptions } from '../index.ts';
import { parseRedisUrl } from '../redis-address.ts';
import type { RedisConnection } from '../redis-driver.ts';
import { wirePattern } from './wire-connection.ts';

let server: RedisServer;
const atEnd: (() => unknown)[] = [];

beforeAll(async () => {
  server = await startRedis({ appendfsync: 'always' });
});
afterAll(() => server.dispose());
afterEach(async () => {
  for (const end of atEnd.splice(0).reverse()) await end();
});

const ID = { scope: 'wire', key: 'one' };
const CLAIM = { bytes: Buffer.from('claim'), state: 'pending', dueAt: null } as const;
let prefixes = 0;

function urlOf(parts: { port?: number; username?: string; password?: string; pathname?: string }) {
  const { port, ...others } = parts;
  const url = Object.assign(new URL(server.url), others);
  if (port !== undefined) url.port = String(port);
  return url.href;
}

async function openAt(source: Pick<RedisStoreOptions, 'url' | 'tls'>) {
  prefixes += 1;
  const options = { ...source, prefix: `wire-${prefixes}:`, timeoutMs: 1_000 };
  const store = await openRedisStore(options as RedisStoreOptions);
  atEnd.push(() => store.close());
  return store;
}

async function connectTo(port = server.port) {
  const messages: string[] = [];
  let closings = 0;
  const events = {
    closed() {
      closings += 1;
    },
    message: (channel: string) => messages.push(channel),
  };
  const pattern = wirePattern(parseRedisUrl(urlOf({ port })), {}, 1_000);
  const connection: RedisConnection = await pattern.openTo(null)(events);
  atEnd.push(() => connection.close());
  return { connection, messages, closings: () => closings };
}

async function asAdmin(...commands: string[]) {
  const admin = createClient({ url: server.url });
  await admin.connect();
  for (const command of commands) await admin.sendCommand(command.split(' '));
  admin.destroy();
}

function gcOf(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

/** Sends the given bytes to every client, and nothing that Redis would send. */
async function impostor(onConnection: (socket: Socket) => void): Promise<number> {
  const listener: Server = createServer((socket) => {
    socket.on('error', () => {});
    atEnd.push(() => socket.destroy());
    onConnection(socket);
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  atEnd.push(() => listener.close());
  return (listener.address() as AddressInfo).port;
}

describe('who speaks to Redis', () => {
  it('is named in the URL, with a password that holds every kind of character', async () => {
    const password = 'a:b@c/d?e#f %25 ü';
    await asAdmin(`ACL SETUSER ada on ~* &* +@all resetpass`);
    const admin = createClient({ url: server.url });
    await admin.connect();
    await admin.sendCommand(['ACL', 'SETUSER', 'ada', `>${password}`]);
    admin.destroy();
    const secret = encodeURIComponent(password);
    const store = await openAt({ url: `redis://ada:${secret}@127.0.0.1:${server.port}` });
    expect(await store.swap(ID, null, CLAIM)).toMatchObject({ won: true });
  });

  it('fails when the password is wrong, and it is in no error', async () => {
    await asAdmin('ACL SETUSER bob on ~* &* +@all >right');
    const url = urlOf({ username: 'bob', password: 'wr0ng-secret' });
    await expect(openAt({ url: `${url}/3` })).rejects.toThrow('WRONGPASS');
    const failure: Error = await openAt({ url }).then(
      () => new Error('it was let in'),
      (error) => error as Error,
    );
    expect(failure).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    expect(failure.message).toContain('WRONGPASS');
    expect(JSON.stringify([failure.message, String(failure.cause)])).not.toContain('wr0ng-secret');
  });

  it('fails when there must be a password', async () => {
    const guarded = await startRedis({ appendfsync: 'always' });
    atEnd.push(() => guarded.dispose());
    const admin = createClient({ url: guarded.url });
    await admin.connect();
    await admin.sendCommand(['CONFIG', 'SET', 'requirepass', 'open']);
    admin.destroy();
    await expect(openAt({ url: urlOf({ port: guarded.port }) })).rejects.toThrow('NOAUTH');
    const store = await openAt({ url: urlOf({ port: guarded.port, password: 'open' }) });
    expect(await store.swap(ID, null, CLAIM)).toMatchObject({ won: true });
  });

  it('finds the database of the URL, and fails when there is none', async () => {
    const store = await openAt({ url: urlOf({ pathname: '/7' }) });
    await store.swap(ID, null, CLAIM);
    const other = createClient({ url: server.url, database: 7 });
    await other.connect();
    atEnd.push(() => other.destroy());
    expect(await other.keys(`wire-${prefixes}:{*`)).toHaveLength(1);
    await expect(openAt({ url: urlOf({ pathname: '/999' }) })).rejects.toThrow('out of range');
  });

  it('is let in without the right to ask whether anybody is there', async () => {
    await asAdmin('ACL SETUSER quiet on nopass ~* &* +@all -ping');
    const store = await openAt({ url: urlOf({ username: 'quiet', password: 'any' }) });
    expect(await store.swap(ID, null, CLAIM)).toMatchObject({ won: true });
  });

  it.each([
    "-ERR unknown command 'AUTH', with args beginning with: 'ada' 's3cret'\r\n",
    '-ERR no such thing as AUTH ada s3cret\r\n',
  ])('finds no password in the words of one who does not know AUTH: %j', async (says) => {
    const port = await impostor((socket) => socket.write(says));
    const failure: unknown = await openAt({ url: `redis://ada:s3cret@127.0.0.1:${port}` }).catch(
      (error) => error,
    );
    expect(failure).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    expect(inspect(failure, { depth: null })).not.toContain('s3cret');
  });

  it('learns why there is no connection any more', async () => {
    const strict = await startRedis({ appendfsync: 'always' });
    atEnd.push(() => strict.dispose());
    const store = await openAt({ url: urlOf({ port: strict.port }) });
    const admin = createClient({ url: strict.url });
    await admin.connect();
    await admin.sendCommand(['CONFIG', 'SET', 'requirepass', 'new']);
    await admin.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes']);
    admin.destroy();
    const reason = () => store.read(ID).then(String, ({ message }: Error) => message);
    await expect.poll(reason).toContain('Redis is not connected: NOAUTH');
  });

  it('is not left without TLS that was asked for', async () => {
    await expect(openAt({ url: server.url, tls: {} })).rejects.toMatchObject({
      code: 'ONCE_INVALID_CONFIG',
      message: expect.stringContaining('write rediss://'),
    });
  });

  it('says either where Redis is or how to reach it', async () => {
    const both = { url: server.url, client: createClient({ url: server.url }) };
    for (const options of [{}, both, { client: {} }]) {
      const opening = openRedisStore(options as unknown as RedisStoreOptions);
      await expect(opening).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG' });
    }
  });
});

describe('over TLS', () => {
  let folder = '';
  let secure: RedisServer;
  let ca: Buffer;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'onceward-tls-'));
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
    const files = ['-keyout', key, '-out', cert];
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    execFileSync(locate('openssl'), ['req', '-x509', '-days', '2', ...kind, ...names, ...files], {
      stdio: 'ignore',
    });
    ca = readFileSync(cert);
    secure = await startRedis({ appendfsync: 'always', tls: { cert, key } });
  });
  afterAll(async () => {
    await secure.dispose();
    rmSync(folder, { recursive: true });
  });

  it('the store works where the certificate is known', async () => {
    const store = await openAt({ url: `rediss://localhost:${secure.tlsPort}`, tls: { ca } });
    const ids = Array.from({ length: 200 }, (_, at) => ({ scope: 'tls', key: `${at}` }));
    const swaps = await Promise.all(ids.map((id) => store.swap(id, null, CLAIM)));
    expect(swaps.every(({ won }) => won)).toBe(true);
  });

  it('a certificate of no trusted authority, or for another name, is refused', async () => {
    const opening = openAt({ url: `rediss://localhost:${secure.tlsPort}` });
    await expect(opening).rejects.toThrow('self-signed certificate');
    const byAddress = openAt({ url: `rediss://127.0.0.1:${secure.tlsPort}`, tls: { ca } });
    await expect(byAddress).rejects.toThrow('IP: 127.0.0.1 is not in the cert');
  });

  it('a server without it is not spoken to in the open', async () => {
    const opening = openAt({ url: `rediss://localhost:${server.port}` });
    await expect(opening).rejects.toThrow('does it speak TLS?');
  });
});

describe('a connection', () => {
  it('gives each its own reply, in the order of the commands, refusals among them', async () => {
    const { connection } = await connectTo();
    const asked = Array.from({ length: 500 }, (_, at) =>
      connection
        .send(at % 5 === 0 ? ['NOSUCH', String(at)] : ['ECHO', `€ ${at}`])
        .then(String, (error: Error) => error.message),
    );
    const replies = await Promise.all(asked);
    for (const [at, reply] of replies.entries()) {
      if (at % 5 === 0) expect(reply).toContain('unknown command');
      else expect(reply).toBe(`€ ${at}`);
    }
  });

  it('holds no reply that it has given, though others are always awaited', async () => {
    const { connection } = await connectTo();
    await connection.send(['SET', 'kept', Buffer.alloc(65_536)]);
    const collect = gcOf();
    collect();
    const before = process.memoryUsage().arrayBuffers;
    let previous = connection.send(['GET', 'kept']);
    for (let at = 0; at < 4_000; at += 1) {
      const next = connection.send(['GET', 'kept']);
      expect((await previous) as Buffer).toHaveLength(65_536);
      previous = next;
    }
    collect();
    // All that were given have 260 MB.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(60_000_000);
    await previous;
  });

  it('that could not put a command into bytes goes on with the next', async () => {
    const { connection } = await connectTo();
    const first = connection.send(['ECHO', 'first']);
    const none = connection.send(['ECHO', undefined as unknown as string]);
    const last = connection.send(['ECHO', 'last']);
    await expect(none).rejects.toThrow(TypeError);
    expect([String(await first), String(await last)]).toEqual(['first', 'last']);
  });

  it('carries a value of 8 MiB both ways', async () => {
    const { connection } = await connectTo();
    const value = Buffer.alloc(8 * 1_024 * 1_024, 'binary\r\n$5\r\n\0');
    await connection.send(['SET', 'long', value]);
    const found = await connection.send(['GET', 'long']);
    expect(value.equals(found as Buffer)).toBe(true);
    await connection.send(['DEL', 'long']);
  });

  it('gets what is published on its channels, and no more when it has left', async () => {
    const { connection, messages } = await connectTo();
    const { connection: other } = await connectTo();
    await connection.subscribe('news €');
    await connection.subscribe('more');
    for (const channel of ['news €', 'more', 'none']) await other.send(['PUBLISH', channel, 'x']);
    await expect.poll(() => messages).toEqual(['news €', 'more']);
    await connection.unsubscribe('news €');
    await other.send(['PUBLISH', 'news €', 'x']);
    await other.send(['PUBLISH', 'more', 'x']);
    await expect.poll(() => messages).toEqual(['news €', 'more', 'more']);
  });

  it('that is closed fails all that wait, says so once, and fails what comes later at once', async () => {
    const { connection, closings } = await connectTo();
    const waiting = [connection.send(['BLPOP', 'never', '0']), connection.send(['PING'])];
    const failures = waiting.map((one) => expect(one).rejects.toThrow('closed'));
    connection.close();
    await Promise.all(failures);
    await expect(connection.send(['PING'])).rejects.toThrow('closed');
    expect(closings()).toBe(1);
  });
});

describe('what is not Redis, or not well', () => {
  it.each([
    ['speaks HTTP', 'HTTP/1.1 400 Bad Request\r\n\r\n', 'is not Redis'],
    ['talks out of turn', '+PONG\r\n+PONG\r\n+PONG\r\n', 'nobody asked'],
    ['hangs up', null, 'closed'],
  ])('and %s is refused in words', async (_what, says, why) => {
    const port = await impostor((socket) => (says === null ? socket.end() : socket.write(says)));
    await expect(openAt({ url: urlOf({ port }) })).rejects.toThrow(why);
  });

  it('and keeps silent is given up in time', async () => {
    const port = await impostor(() => {});
    const began = performance.now();
    await expect(openAt({ url: urlOf({ port }) })).rejects.toThrow('no greeting within 1000 ms');
    expect(performance.now() - began).toBeLessThan(3_000);
  });

  it('and is not there is named', async () => {
    const port = await impostor(() => {});
    for (const end of atEnd.splice(0)) await end();
    await expect(openAt({ url: urlOf({ port }) })).rejects.toThrow('ECONNREFUSED');
    const lookup: LookupFunction = (_host, _options, done) =>
      done(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '127.0.0.2', family: 4 },
      ]);
    const severally = openAt({ url: `rediss://several.example:${port}`, tls: { lookup } });
    await expect(severally).rejects.toThrow(
      `ECONNREFUSED 127.0.0.1:${port}; connect ECONNREFUSED 127.0.0.2`,
    );
  });
});
