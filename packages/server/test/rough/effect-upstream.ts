import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Effect {
  readonly body: string;
}

/** Which operation a request belongs to is said in this header, with and without a key. */
export const NAME_HEADER = 'X-Rough';

/** The ways in which it answers, by `do` in the query; `notmodified` is one more. Those of the first list end well. */
export const GOOD = ['declared', 'chunked', 'trickle', 'empty'] as const;
export const BAD = ['reset', 'half', 'silent', 'stream', 'large', 'unavailable'] as const;

/** An API that notes each effect under the name of its operation, and answers in all sorts of ways. */
export class EffectUpstream {
  readonly effects = new Map<string, Effect[]>();
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((request, response) => {
    this.#answer(request, response).catch(() => response.destroy());
  });
  #runs = 0;

  async listen(): Promise<string> {
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('upgrade', (request, socket) => this.#upgrade(request, socket));
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  #note(request: IncomingMessage, body: string): void {
    const name = String(request.headers[NAME_HEADER.toLowerCase()] ?? 'nobody');
    const seen = this.effects.get(name);
    if (seen === undefined) this.effects.set(name, [{ body }]);
    else seen.push({ body });
  }

  #upgrade(request: IncomingMessage, socket: Duplex): void {
    socket.on('error', () => {});
    if (request.method !== 'GET') {
      // A server that knows nothing of upgrades would run it: so does this one, with what it was given.
      this.#note(request, '');
      socket.end('HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup');
      return;
    }
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n',
    );
    socket.on('data', (chunk) => socket.write(chunk));
    socket.on('end', () => socket.end());
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const query = new URLSearchParams(request.url?.split('?')[1] ?? '');
    const how = query.get('do') ?? 'declared';
    if (how === 'unavailable') {
      response.writeHead(503, { 'content-length': '4' }).end('busy');
      return;
    }
    this.#note(request, Buffer.concat(pieces).toString('latin1'));
    this.#runs += 1;
    const text = JSON.stringify({
      run: this.#runs,
      filler: 'f'.repeat(Number(query.get('bytes'))),
    });
    const delay = Number(query.get('delay') ?? 0);
    if (delay > 0) await sleep(delay);
    await finish(how, text, request, response);
  }
}

async function finish(
  how: string,
  text: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  switch (how) {
    case 'chunked':
      response.writeHead(201, { 'content-type': 'application/json' });
      response.write(text.slice(0, 5));
      response.end(text.slice(5));
      return;
    case 'trickle':
      response.writeHead(200, { 'content-length': text.length });
      for (let at = 0; at < text.length; at += Math.ceil(text.length / 5)) {
        response.write(text.slice(at, at + Math.ceil(text.length / 5)));
        await sleep(5);
      }
      response.end();
      return;
    case 'empty':
      response.writeHead(204).end();
      return;
    case 'notmodified':
      // It declares the length of what it does not send, as it may. Node would take the length away.
      request.socket.write(
        `HTTP/1.1 304 Not Modified\r\nETag: "e"\r\nContent-Length: ${text.length}\r\n\r\n`,
      );
      request.socket.destroySoon();
      return;
    case 'reset':
      request.socket.destroy();
      return;
    case 'half':
      response.writeHead(200, { 'content-length': '1000' });
      response.write('half');
      await sleep(5);
      request.socket.destroy();
      return;
    case 'silent':
      // Until the gateway has had enough.
      return;
    case 'stream':
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (let count = 0; count < 10 && !response.destroyed; count += 1) {
        response.write(`data: ${count}\n\n`);
        await sleep(10);
      }
      response.end();
      return;
    case 'large':
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      for (let count = 0; count < 30; count += 1) response.write(Buffer.alloc(50_000, count));
      response.end();
      return;
    default:
      response.writeHead(201, { 'content-length': text.length, 'x-upstream': 'yes' });
      response.end(text);
  }
}
