import { gunzipSync } from 'node:zlib';
import { expect } from 'vitest';
import { memoryStore } from '../../src/stores/memory/index.ts';
import {
  DoorClient,
  type DoorReply,
  type DoorRequest,
} from '../../src/testing/doors/door-client.ts';

/** What the applications answer, each under its own path. */
export const KINDS = [
  'json',
  'stream',
  'file',
  'redirect',
  'refused',
  'failed',
  'empty',
  'large',
  'upload',
  'page',
] as const;

export type Kind = (typeof KINDS)[number];

export const TERMS = `${import.meta.dirname}/assets/terms.txt`;
export const ASSETS = `${import.meta.dirname}/assets`;
export const LARGE = {
  rows: Array.from({ length: 6_000 }, (_, i) => `row ${i} of the large answer`),
};
export const PIECES = ['one '.repeat(400), 'two '.repeat(400), 'three '.repeat(400)];

/** Pieces over time: an answer that no one could take for whole. */
export async function* pieces(): AsyncGenerator<string> {
  for (const piece of PIECES) {
    yield piece;
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
}

export class Refusal extends Error {
  readonly status = 409;
  readonly statusCode = 409;
  readonly expose = true;
}

/** The work of a neighbour is a header. */
export const has = (name: string) => (reply: DoorReply) => {
  expect(reply.headers).toHaveProperty(name);
};

/** How often each kind was executed. */
export class Runs {
  readonly #runs = new Map<string, number>();

  note(kind: string): void {
    this.#runs.set(kind, this.of(kind) + 1);
  }

  of(kind: string): number {
    return this.#runs.get(kind) ?? 0;
  }

  get total(): number {
    return [...this.#runs.values()].reduce((sum, runs) => sum + runs, 0);
  }
}

export interface App {
  readonly url: string;
  readonly runs: Runs;
  readonly close: () => unknown;
}

/** The same application with the door in its place, or without it. */
export type Start = (hasDoor: boolean) => Promise<App>;

/** A package that people mount beside a door. */
export interface Neighbour<Mounted> {
  readonly name: string;
  /** A fresh one for each application. `log` takes the lines that it writes. */
  readonly mount: (log: string[]) => Mounted;
  /** Writes one line for each answer that it sees. */
  readonly isLogger?: boolean;
  /** What is to be seen of its work on an answer. */
  readonly works?: (reply: DoorReply, kind: Kind) => void;
  /** Its work is done on an answer that is not sent again: cookies, for one. */
  readonly isOfOneAnswer?: boolean;
}

export const doorOptions = () =>
  ({
    store: memoryStore(),
    scopeFrom: () => 'ada',
    effect: { kind: 'external', onLapse: 'in_doubt' },
    streams: 'keep',
  }) as const;

const UPLOAD = [
  '--edge\r\ncontent-disposition: form-data; name="note"\r\n\r\nfor ada\r\n',
  '--edge\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n',
  `content-type: text/plain\r\n\r\n${'x'.repeat(5_000)}\r\n--edge--\r\n`,
].join('');

function requestOf(kind: Kind, key: string): DoorRequest {
  const headers = { 'accept-encoding': 'gzip', origin: 'https://shop.example' };
  if (kind === 'page') return { method: 'HEAD', path: '/page', key, headers };
  if (kind !== 'upload') return { path: `/${kind}`, key, headers, body: { item: 'widget' } };
  const type = 'multipart/form-data; boundary=edge';
  return { path: '/upload', key, headers: { ...headers, 'content-type': type }, body: UPLOAD };
}

async function ask(client: DoorClient, kind: Kind): Promise<DoorReply> {
  let timer: NodeJS.Timeout | undefined;
  const hanging = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${kind} hangs`)), 5_000);
  });
  const key = `key-${kind}`;
  return Promise.race([client.send(requestOf(kind, key)), hanging]).finally(() => {
    clearTimeout(timer);
  });
}

/** What of an answer must be the same with and without a door, and again on a replay. */
function factsOf(reply: DoorReply): Record<string, unknown> {
  const { status, headers, body } = reply;
  const encoding = headers['content-encoding'];
  return {
    status,
    body: (encoding === 'gzip' && body.length > 0 ? gunzipSync(body) : body).toString(),
    encoding,
    // Servers of fetch handlers spell a type that nobody has named in two ways.
    type: headers['content-type']?.replace('; ', ';'),
    location: headers.location,
    etag: headers.etag,
  };
}

export interface Seen {
  readonly kind: Kind;
  readonly plain: DoorReply;
  readonly first: DoorReply;
  readonly again: DoorReply;
}

/** Every kind of answer: the first is what it would be without a door, and the replay is the first. */
export async function proveBeside(start: Start, kinds: readonly Kind[] = KINDS): Promise<Seen[]> {
  const bare = await start(false);
  const guarded = await start(true);
  const clients = [new DoorClient(bare.url), new DoorClient(guarded.url)] as const;
  try {
    return await Promise.all(
      kinds.map(async (kind) => {
        const plain = await ask(clients[0], kind);
        const first = await ask(clients[1], kind);
        const again = await ask(clients[1], kind);
        const isKept = kind !== 'failed' && kind !== 'page';
        expect({ kind, ...factsOf(first) }).toEqual({ kind, ...factsOf(plain) });
        expect({ kind, ...factsOf(again) }).toEqual({ kind, ...factsOf(plain) });
        expect([kind, again.headers['idempotency-replayed']]).toEqual([
          kind,
          isKept ? 'true' : kind === 'failed' ? 'false' : undefined,
        ]);
        expect([kind, guarded.runs.of(kind)]).toEqual([kind, isKept ? 1 : 2]);
        return { kind, plain, first, again };
      }),
    );
  } finally {
    for (const client of clients) client.close();
    await bare.close();
    await guarded.close();
  }
}

/** The neighbour has done its work on every answer that it had to do with. */
export function proveWork<Mounted>(
  neighbour: Neighbour<Mounted>,
  place: 'before' | 'behind',
  seen: readonly Seen[],
): void {
  for (const { kind, plain, first, again } of seen) {
    neighbour.works?.(plain, kind);
    neighbour.works?.(first, kind);
    if (place === 'before' || neighbour.isOfOneAnswer !== true) neighbour.works?.(again, kind);
  }
}

/** Among many, one may undo the work of another: what is done without a door is done with it, on a replay too. */
export function proveSameWork<Mounted>(one: Neighbour<Mounted>, seen: readonly Seen[]): void {
  for (const { kind, plain, first, again } of seen) {
    if (!isDone(one, plain, kind)) continue;
    expect([one.name, kind, isDone(one, first, kind)]).toEqual([one.name, kind, true]);
    expect([one.name, kind, isDone(one, again, kind)]).toEqual([one.name, kind, true]);
  }
}

function isDone<Mounted>(one: Neighbour<Mounted>, reply: DoorReply, kind: Kind): boolean {
  try {
    one.works?.(reply, kind);
    return true;
  } catch {
    return false;
  }
}
