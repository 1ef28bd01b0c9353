import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectSecurely } from 'node:tls';
import type { DurationMs } from '../../engine/units.ts';
import { CommandBytes } from './command-bytes.ts';
import type { RedisAddress } from './redis-address.ts';
import {
  type Command,
  type ConnectionEvents,
  type ConnectionPattern,
  type RedisConnection,
  type Reply,
  within,
} from './redis-driver.ts';
import { ReplyReader } from './reply-reader.ts';

const KEEP_ALIVE_MS: DurationMs = 5_000;

/** Connections without a driver. */
export function wirePattern(
  address: RedisAddress,
  tls: ConnectionOptions,
  connectTimeoutMs: DurationMs,
): ConnectionPattern {
  return {
    nodes: null,
    seed: address,
    openTo: (other) => async (events) => {
      const to = { ...address, ...other };
      const connection = new WireConnection(openSocket(to, tls), events);
      await within(connectTimeoutMs, connection.greet(to), () => connection.close());
      return connection;
    },
  };
}

function openSocket({ host, port, isSecure }: RedisAddress, tls: ConnectionOptions): Socket {
  const socket = isSecure ? connectSecurely({ ...tls, host, port }) : connect({ host, port });
  return socket.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_MS);
}

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

/**
 * One socket to Redis. A driver makes two writes of its own for each value of a command, and hands them over one turn
 * of the event loop later; here a command of any length is one write, at once.
 */
class WireConnection implements RedisConnection {
  readonly #socket: Socket;
  readonly #commands = new CommandBytes();
  readonly #events: ConnectionEvents;
  /** For replies, which come in the order of the commands. */
  #waiting: Waiting[] = [];
  #answered = 0;
  #isListening = false;
  #isCorked = false;
  #failure = new Error('the connection was closed');

  constructor(socket: Socket, events: ConnectionEvents) {
    this.#socket = socket;
    this.#events = events;
    const reader = new ReplyReader((reply) => this.#take(reply));
    socket.on('data', (piece: Buffer) => {
      try {
        reader.read(piece);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on('error', (error) => {
      this.#failure = error;
    });
    // Whatever is still to be sent would have no reply.
    socket.on('end', () => socket.destroy());
    socket.on('close', () => this.#end());
  }

  /** Says who is there. The last command is for those who need not say it: a silent server is noticed all the same. */
  async greet({ username, password, database }: RedisAddress): Promise<void> {
    const commands: Command[] = [['PING']];
    if (database !== 0) commands.unshift(['SELECT', String(database)]);
    if (username !== '') commands.unshift(['AUTH', username, password]);
    else if (password !== '') commands.unshift(['AUTH', password]);
    await Promise.all(commands.map((command) => this.send(command)));
  }

  send(command: Command): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) {
        reject(this.#failure);
        return;
      }
      this.#waiting.push({ resolve, reject });
      this.#cork();
      this.#socket.write(this.#commands.encode(command));
    });
  }

  async subscribe(channel: string): Promise<void> {
    this.#isListening = true;
    await this.send(['SUBSCRIBE', channel]);
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.send(['UNSUBSCRIBE', channel]);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Commands that are sent in one breath leave together. */
  #cork(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#socket.cork();
    process.nextTick(() => {
      this.#isCorked = false;
      this.#socket.uncork();
    });
  }

  #take(reply: Reply): void {
    if (this.#isListening && Array.isArray(reply) && String(reply[0]) === 'message') {
      this.#events.message(String(reply[1]));
      return;
    }
    const waiting = this.#waiting[this.#answered];
    if (waiting === undefined) throw new Error('Redis sent a reply that nobody asked for');
    this.#answered += 1;
    if (this.#answered === this.#waiting.length) this.#forgetAnswered();
    if (reply instanceof Error) waiting.reject(reply);
    else waiting.resolve(reply);
  }

  #forgetAnswered(): void {
    this.#waiting = [];
    this.#answered = 0;
  }

  #end(): void {
    const left = this.#waiting.slice(this.#answered);
    this.#forgetAnswered();
    for (const { reject } of left) reject(this.#failure);
    this.#events.closed();
  }
}
