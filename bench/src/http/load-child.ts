import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { BODY } from './order-body.ts';

export interface LoadTask {
  readonly port: number;
  readonly path: string;
  readonly connections: number;
  readonly ms: number;
  /** `new`: a key of its own for each request. `same`: one key for all. `job`: new ones of jobs. `none`: no key. */
  readonly keys: 'new' | 'same' | 'job' | 'none';
  readonly body?: string;
  /** Lines to add to the head, each with its line break. */
  readonly headers?: string;
}

export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  /** Answers other than 2xx. */
  readonly refused: number;
  /** `null`: not checked. */
  readonly replayed: number | null;
}

const REPLAYED = Buffer.from('idempotency-replayed: true');

/**
 * Keeps connections busy with the least work that makes a valid request and reads a whole answer. It sleeps when it
 * has none to read, as clients do. To wake it costs the server that answers up to 20 µs on a virtual machine, and of
 * two servers only the slower pays that: the ratios are harsher than the processor time that was spent.
 */
async function load(task: LoadTask): Promise<LoadResult> {
  const counts = { requests: 0, refused: 0, replayed: 0 };
  const began = performance.now();
  const until = began + task.ms;
  const lines = Array.from({ length: task.connections }, () => keepBusy(task, until, counts));
  await Promise.all(lines);
  return { ...counts, seconds: (performance.now() - began) / 1_000 };
}

const prefix = randomBytes(9).toString('base64url');
let keys = 0;

function requestOf(task: LoadTask): string {
  keys += 1;
  const { body = BODY } = task;
  const key = keyOf(task.keys);
  const header = task.keys === 'none' ? '' : `Idempotency-Key: ${key}\r\n`;
  return (
    `POST ${task.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\n${header}${task.headers ?? ''}\r\n${body}`
  );
}

function keyOf(kind: LoadTask['keys']): string {
  if (kind === 'job') return `${prefix}:${keys}:a1b2c3d4e5f60718`;
  return kind === 'new' ? `${prefix}-${keys}` : `${prefix}-same`;
}

function keepBusy(
  task: LoadTask,
  until: number,
  counts: { requests: number; refused: number; replayed: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(task.port, '127.0.0.1', () => socket.write(requestOf(task)));
    socket.setNoDelay(true);
    let held: Buffer = Buffer.alloc(0);
    socket.on('error', reject);
    socket.on('data', (chunk: Buffer) => {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const end = answerEnd(held);
      if (end < 0) return;
      counts.requests += 1;
      if (held[9] !== 0x32) counts.refused += 1;
      if (held.includes(REPLAYED)) counts.replayed += 1;
      held = held.subarray(end);
      if (performance.now() < until) {
        socket.write(requestOf(task));
      } else {
        socket.destroy();
        resolve();
      }
    });
  });
}

const HEAD_END = Buffer.from('\r\n\r\n');
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

/** Where the first answer in these bytes ends, or -1. */
function answerEnd(bytes: Buffer): number {
  const head = bytes.indexOf(HEAD_END);
  if (head < 0) return -1;
  const text = bytes.toString('latin1', 0, head).toLowerCase();
  const at = text.indexOf('content-length: ');
  if (at >= 0) {
    const end = head + 4 + Number.parseInt(text.slice(at + 16), 10);
    return bytes.length >= end ? end : -1;
  }
  const last = bytes.indexOf(LAST_CHUNK, head + 4);
  return last < 0 ? -1 : last + LAST_CHUNK.length;
}

process.on('message', (task: LoadTask) => {
  load(task).then(
    (result) => process.send!(result),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
