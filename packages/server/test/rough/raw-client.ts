import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, answersIn } from './answer.ts';

/** How a client goes: it says so, it vanishes, or its machine says so in its place. */
export const MANNERS = ['end', 'destroy', 'reset'] as const;
export type Manner = (typeof MANNERS)[number];

/** A connection under full control: bytes as they are, when they are wanted, read or not. */
export class RawClient {
  readonly #socket: Socket;
  readonly #chunks: Buffer[] = [];
  readonly #listeners = new Set<() => void>();
  readonly connected: Promise<boolean>;
  closed = false;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#socket = connect({ port: Number(port), host: hostname, noDelay: true });
    this.connected = new Promise((resolve) => {
      this.#socket.once('connect', () => resolve(true));
      this.#socket.once('close', () => resolve(false));
    });
    this.#socket.on('error', () => {});
    this.#socket.on('data', (chunk) => {
      this.#chunks.push(chunk);
      this.#wake();
    });
    this.#socket.on('close', () => {
      this.closed = true;
      this.#wake();
    });
  }

  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get answers(): Answer[] {
    return answersIn(this.received, this.closed);
  }

  write(bytes: Buffer): void {
    if (!this.#socket.destroyed && this.#socket.writable) this.#socket.write(bytes);
  }

  /** Says that nothing more will come, and goes on reading. */
  halfClose(): void {
    this.#socket.end();
  }

  stopReading(): void {
    this.#socket.pause();
  }

  readOn(): void {
    this.#socket.resume();
  }

  leave(manner: Manner): void {
    const socket = this.#socket;
    // A reset cannot overtake a goodbye: Node would keep the handle, and spin on it.
    const canReset = !socket.connecting && !socket.writableEnded && socket.writableLength === 0;
    if (manner === 'end') {
      socket.resume();
      socket.destroySoon();
    } else if (manner === 'reset' && canReset) {
      socket.resetAndDestroy();
    } else {
      socket.destroy();
    }
  }

  /** Waits for so many whole answers, and gives up when the connection ends or the time is over. */
  async hear(count: number, patienceMs: number): Promise<readonly Answer[]> {
    await this.until(() => {
      const { answers } = this;
      return answers.length >= count && answers.every(({ whole }) => whole);
    }, patienceMs);
    return this.answers;
  }

  /** Waits until something is so; the end of the connection or of the time ends it as well. */
  async until(isSo: () => boolean, patienceMs: number): Promise<boolean> {
    const over = new AbortController();
    const late = sleep(patienceMs, undefined, { signal: over.signal }).catch(() => {});
    const seen = new Promise<void>((resolve) => {
      const look = () => {
        if (!this.closed && !isSo()) return;
        this.#listeners.delete(look);
        resolve();
      };
      this.#listeners.add(look);
      look();
    });
    await Promise.race([seen, late]);
    over.abort();
    return isSo();
  }

  #wake(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

export interface Asked {
  readonly answer: Answer | null;
  readonly ms: number;
}

/** One request on a connection of its own, by a client that waits for its answer. */
export async function ask(url: string, bytes: Buffer, patienceMs: number): Promise<Asked> {
  const began = performance.now();
  const client = new RawClient(url);
  client.write(bytes);
  const [answer] = await client.hear(1, patienceMs);
  client.leave('destroy');
  return { answer: answer?.whole ? answer : null, ms: performance.now() - began };
}

/** What a path says with 200 or 201, to checks from outside the traffic. */
export async function look(
  url: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string,
): Promise<string | null> {
  const all = { ...headers, Host: new URL(url).host, Connection: 'close' };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  if (body !== undefined) {
    lines.push(`Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`);
  }
  const method = body === undefined ? 'GET' : 'POST';
  const bytes = `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`;
  const { answer } = await ask(url, Buffer.from(bytes), 5_000);
  return answer !== null && answer.status < 300 ? answer.body.toString() : null;
}
