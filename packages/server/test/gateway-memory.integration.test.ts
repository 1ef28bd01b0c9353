import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CREDENTIAL, RunningProgram, temporaryFolder } from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

/** Unbounded buffers would take forty times what is allowed. */
const CLIENTS = 1_000;
const BODY_BYTES = 10_000_000;
const ALLOWED_RISE = 256 * 1_048_576;
const CHUNK = Buffer.alloc(65_536, 'x');
const FRAME = Buffer.concat([Buffer.from('10000\r\n'), CHUNK, Buffer.from('\r\n')]);

const upstream = new UpstreamServer();
const folder = temporaryFolder();
let program: RunningProgram;
let url: string;
beforeAll(async () => {
  program = new RunningProgram(['gateway', '--upstream', await upstream.listen()], {
    PORT: '0',
    ONCEWARD_ADMIN_PORT: '0',
    ONCEWARD_DATA: folder.path,
    ONCEWARD_LOG_LEVEL: 'error',
    ...CREDENTIAL,
  });
  url = await program.ready();
});
afterAll(async () => {
  await program.stop();
  await upstream.close();
  folder.remove();
});

function residentBytes(): number {
  const status = readFileSync(`/proc/${program.child.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1_024;
}

/** Uploads a body in chunks of no declared total, as fast as it is taken; gives the status. */
function upload(number: number, declared: boolean): Promise<number | null> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ port: Number(port), host: hostname });
    let text = '';
    let sent = 0;
    const pump = () => {
      while (sent < BODY_BYTES && !socket.destroyed) {
        sent += CHUNK.length;
        if (!socket.write(declared ? CHUNK : FRAME)) return;
      }
      if (!declared && !socket.destroyed) socket.write('0\r\n\r\n');
    };
    socket.on('connect', () => {
      const length = declared ? `Content-Length: ${BODY_BYTES}` : 'Transfer-Encoding: chunked';
      socket.write(
        `POST /upload HTTP/1.1\r\nHost: a\r\nIdempotency-Key: m-${number}\r\n${length}\r\n\r\n`,
      );
      pump();
    });
    socket.on('drain', pump);
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      const status = /^HTTP\/1\.1 (\d{3})/.exec(text)?.[1];
      resolve(status === undefined ? null : Number(status));
    });
  });
}

describe('[H15] the memory of the gateway', () => {
  for (const declared of [false, true]) {
    const kind = declared ? 'that say how long they are' : 'of no declared length';
    it(`rises by no more than 256 MB while ${CLIENTS} clients upload 10 MB each ${kind}`, async () => {
      for (let index = 0; index < 20; index += 1) await upload(1_000_000 + index, declared);
      const before = residentBytes();
      let most = before;
      let done = false;
      const watch = (async () => {
        while (!done) {
          most = Math.max(most, residentBytes());
          await sleep(20);
        }
      })();
      const uploads = Array.from({ length: CLIENTS }, (_, index) => upload(index, declared));
      const statuses = await Promise.all(uploads);
      done = true;
      await watch;
      expect(most - before).toBeLessThanOrEqual(ALLOWED_RISE);
      // On a busy machine a client may come to read only after the connection was cut.
      const refused = statuses.filter((status) => status === 413).length;
      expect(refused).toBeGreaterThan(CLIENTS / 2);
      expect(statuses.every((status) => status === 413 || status === null)).toBe(true);
      expect(upstream.count('/upload')).toBe(0);
      expect((await fetch(`${url}/alive`)).status).toBe(201);
    }, 600_000);
  }
});
