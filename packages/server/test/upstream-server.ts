import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly rawHeaders: readonly string[];
  readonly bytes: number;
}

/** An API to stand a gateway before. It notes what reaches it and misbehaves by path. */
export class UpstreamServer {
  readonly #server = createServer((request, response) => {
    this.#answer(request, response).catch(() => response.destroy());
  });
  readonly seen: SeenRequest[] = [];

  async listen(): Promise<string> {
    this.#server.on('upgrade', (request, socket) => {
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n',
      );
      socket.write(`hello ${request.url}\n`);
      socket.on('data', (chunk) => socket.write(chunk));
      socket.on('end', () => socket.end());
      socket.on('error', () => {});
    });
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this.url;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How often the path of this beginning was really asked for. */
  count(path: string): number {
    return this.seen.filter(({ url }) => url.startsWith(path)).length;
  }

  last(): SeenRequest {
    const found = this.seen.at(-1);
    if (found === undefined) throw new Error('the upstream has seen no request');
    return found;
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let bytes = 0;
    for await (const chunk of request) bytes += (chunk as Buffer).length;
    const { method = '', url = '', headers, rawHeaders } = request;
    this.seen.push({ method, url, headers, rawHeaders, bytes });
    const number = this.seen.length;
    const [path, query] = url.split('?');
    const delay = Number(new URLSearchParams(query).get('delay') ?? 0);
    if (delay > 0) await sleep(delay);
    switch (path?.split('/')[1]) {
      case 'reset':
        request.socket.destroy();
        return;
      case 'half':
        response.writeHead(200, { 'content-length': '1000' });
        response.write('half');
        await sleep(50);
        request.socket.destroy();
        return;
      case 'events':
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        for (let index = 1; index <= 3; index += 1) {
          response.write(`data: ${index}\n\n`);
          await sleep(100);
        }
        response.end();
        return;
      case 'chunked':
        response.writeHead(201, { 'content-type': 'text/plain' });
        response.write(`run ${number} `);
        await sleep(50);
        response.end('and more');
        return;
      case 'large':
        response.writeHead(200, { 'content-type': 'application/octet-stream' });
        for (let index = 0; index < 30; index += 1) response.write(Buffer.alloc(100_000, index));
        response.end();
        return;
      case 'sized': {
        const wanted = Number(new URLSearchParams(query).get('bytes'));
        response.writeHead(200, { 'content-length': wanted }).end(Buffer.alloc(wanted, 'x'));
        return;
      }
      case 'failing':
        response.writeHead(500).end('broken');
        return;
      default:
        response.writeHead(201, {
          'content-type': 'application/json',
          'x-upstream': 'yes',
          'x-hop': 'mine',
          connection: 'x-hop, keep-alive',
          'set-cookie': ['a=1', 'b=2'],
        });
        response.end(JSON.stringify({ run: number, method, url, bytes }));
    }
  }
}
