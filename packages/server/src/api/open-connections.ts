import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Visit } from './visit.ts';

/**
 * Knows which connections carry a request. Node closes only those that have carried one before: a connection that a
 * browser opened in advance would hold up the end of the server for a minute. Nor does Node know a connection any more
 * once it has been upgraded.
 */
export class OpenConnections {
  readonly #visits = new Map<Duplex, Set<Visit>>();
  #ending = false;

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      const visits = new Set<Visit>();
      this.#visits.set(socket, visits);
      socket.once('close', () => {
        this.#visits.delete(socket);
        for (const visit of visits) visit.end();
      });
    });
  }

  /** Counts every request of a server that needs to know no more of them. */
  countRequests(server: Server): void {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.enter(request, response);
    });
  }

  /** A request has come: its connection stays open until it is answered. */
  enter({ socket }: IncomingMessage, response: ServerResponse): Visit {
    const visit = this.#add(socket, new Visit(response));
    response.once('close', () => this.#leave(socket, visit));
    return visit;
  }

  /** How many requests of this connection are in flight. */
  waitingOn(socket: Duplex): number {
    return this.#visits.get(socket)?.size ?? 0;
  }

  /** The connection itself has been handed over, and is in use until it closes. */
  enterSocket(socket: Duplex): Visit {
    return this.#add(socket, new Visit(null));
  }

  /**
   * Whether an answer is in flight on it, or is still to come for a request that is there whole. Anything else that is
   * written to the connection would be taken for it, or for a part of it.
   */
  isAnswering(socket: Duplex): boolean {
    for (const { response } of this.#visits.get(socket) ?? []) {
      if (response === null || response.headersSent || response.req.complete) return true;
    }
    return false;
  }

  /** Closes what is idle now, and every other connection as soon as its answer is out. */
  endIdle(): void {
    this.#ending = true;
    for (const [socket, visits] of this.#visits) if (visits.size === 0) socket.destroy();
  }

  /** Cuts every connection, whatever it carries and whatever its other end has left unread. */
  cutOff(): void {
    for (const socket of this.#visits.keys()) socket.destroy();
  }

  #add(socket: Duplex, visit: Visit): Visit {
    const visits = this.#visits.get(socket);
    if (visits === undefined) visit.end();
    else visits.add(visit);
    return visit;
  }

  #leave(socket: Socket, visit: Visit): void {
    const visits = this.#visits.get(socket);
    visits?.delete(visit);
    visit.end();
    if (this.#ending && visits?.size === 0) socket.destroySoon();
  }
}
