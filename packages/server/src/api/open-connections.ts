import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Knows which connections carry a request. Node closes only those that have carried one before: a connection that a
 * browser opened in advance would hold up the end of the server for a minute.
 */
export class OpenConnections {
  readonly #requests = new Map<Socket, number>();
  #ending = false;

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#requests.set(socket, 0);
      socket.once('close', () => this.#requests.delete(socket));
    });
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      this.#add(socket, 1);
      response.once('close', () => {
        this.#add(socket, -1);
        if (this.#ending && this.#requests.get(socket) === 0) socket.destroySoon();
      });
    });
  }

  /** Closes what is idle now, and every other connection as soon as its answer is out. */
  endIdle(): void {
    this.#ending = true;
    for (const [socket, count] of this.#requests) if (count === 0) socket.destroy();
  }

  #add(socket: Socket, change: number): void {
    const count = this.#requests.get(socket);
    if (count !== undefined) this.#requests.set(socket, count + change);
  }
}
