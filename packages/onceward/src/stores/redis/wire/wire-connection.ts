import { connect, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectSecurely } from 'node:tls';
import type { DurationMs } from '../../../engine/units.ts';
import type { RedisAddress } from '../redis-address.ts';
import {
  type Command,
  type ConnectionEvents,
  type ConnectionPattern,
  type RedisConnection,
  type Reply,
  within,
} from '../redis-driver.ts';
import { reasonOf } from '../redis-link.ts';
import { CommandBytes } from './command-bytes.ts';
import { ReplyReader } from './reply-reader.ts';

const KEEP_ALIVE_MS: DurationMs = 5_000;
/** Places in a line that stand empty. */
const TAKEN_AT_MOST = 1_024;

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
      const hint = to.isSecure ? '; does it speak TLS?' : '';
      await within(connectTimeoutMs, connection.greet(to), () => connection.close(), hint);
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
  readonly #waiting = new Line<Waiting>();
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
      this.#failure = worded(error);
    });
    // Whatever is still to be sent would have no reply.
    socket.on('end', () => socket.destroy());
    socket.on('close', () => this.#end());
  }

  /** Says who is there, and waits until the server has said something. */
  async greet({ username, password, database }: RedisAddress): Promise<void> {
    const steps: Promise<Reply>[] = [];
    if (username !== '') steps.push(this.#authenticate(['AUTH', username, password], password));
    else if (password !== '') steps.push(this.#authenticate(['AUTH', password], password));
    if (database !== 0) steps.push(this.send(['SELECT', String(database)]));
    steps.push(this.send(['PING']).catch(unlessForbidden));
    for (const step of steps) step.catch(() => {});
    // In their order: who was not let in is refused everything after it, too.
    for (const step of steps) await step;
  }

  async #authenticate(command: Command, password: string): Promise<Reply> {
    try {
      return await this.send(command);
    } catch (error) {
      if (error === this.#failure) throw error;
      const said = reasonOf(error);
      // It is no cause either: whatever knows the password may repeat it in words of its own.
      throw new Error(password !== '' && said.includes(password) ? 'AUTH was refused' : said);
    }
  }

  send(command: Command): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) {
        reject(this.#failure);
        return;
      }
      // Before anybody waits: without room for its bytes it has no reply, and each would be taken for that of another.
      const bytes = this.#commands.encode(command);
      this.#waiting.push({ resolve, reject });
      this.#cork();
      this.#socket.write(bytes);
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
    const waiting = this.#waiting.take();
    if (waiting === null) throw new Error('Redis sent a reply that nobody asked for');
    if (reply instanceof Error) waiting.reject(reply);
    else waiting.resolve(reply);
  }

  #end(): void {
    for (let left = this.#waiting.take(); left !== null; left = this.#waiting.take()) {
      left.reject(this.#failure);
    }
    this.#events.closed();
  }
}

/** First come, first served. What was taken is held no longer. */
class Line<T> {
  #items: (T | null)[] = [];
  #first = 0;

  push(item: T): void {
    this.#items.push(item);
  }

  take(): T | null {
    const item = this.#items[this.#first];
    if (item == null) return null;
    this.#items[this.#first] = null;
    this.#first += 1;
    if (this.#first === this.#items.length || this.#first === TAKEN_AT_MOST) {
      this.#items.splice(0, this.#first);
      this.#first = 0;
    }
    return item;
  }
}

/** A user without the permission was authenticated all the same. */
function unlessForbidden(error: Error): Reply {
  if (error.message.startsWith('NOPERM')) return null;
  throw error;
}

/** Where a host has several addresses, Node says of each why it failed, and nothing of all. */
function worded(error: Error): Error {
  if (!(error instanceof AggregateError)) return error;
  const each = error.errors.map(({ message }: Error) => message);
  return new Error(each.join('; '), { cause: error });
}
