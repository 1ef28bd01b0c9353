import type { ServerResponse } from 'node:http';

/** The methods of a response through which all its bytes go. */
const WATCHED = ['writeHead', 'write', 'end', 'flushHeaders', 'destroy'] as const;

export type Methods = Pick<ServerResponse, (typeof WATCHED)[number]>;

type Done = (error?: Error | null) => void;

/** Is called in place of the methods, and decides what reaches them. */
export interface ResponseWatcher {
  /** The head can no longer be changed, though it may not have been sent. */
  readonly isHeaded: boolean;
  /** The answer is complete: no header can be set any more. */
  readonly isSealed: boolean;
  writeHead(status: number, rest: readonly unknown[]): void;
  write(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): boolean;
  end(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): void;
  flushHeaders(): void;
  destroy(error: Error | undefined): void;
  /** The connection is gone. */
  closed(): void;
}

const WATCHER = Symbol('onceward.watcher');

type Watched = ServerResponse & { [WATCHER]: ResponseWatcher };

/** A response is watched by one door only: a second one would wait for the first. */
export function isWatched(response: ServerResponse): boolean {
  return WATCHER in response;
}

/**
 * Puts a watcher between a response and its methods, and gives the methods as they were. A prototype of our own, made
 * once for each kind of response, is slipped in: methods and accessors of its own would make each response slow.
 * The watcher stays when its work is done, since others may have wrapped the methods in the meantime.
 */
export function watchResponse(response: ServerResponse, watcher: ResponseWatcher): Methods {
  const { prototype, methods } = layerOver(Object.getPrototypeOf(response) as ServerResponse);
  const own = ownMethods(response);
  (response as Watched)[WATCHER] = watcher;
  Object.setPrototypeOf(response, prototype);
  response.once('close', onClose);
  return own === null ? methods : { ...methods, ...own };
}

/** A middleware before us has put methods of its own on the response: ours go over them. */
function ownMethods(response: ServerResponse): Partial<Methods> | null {
  let own: Partial<Methods> | null = null;
  for (const name of WATCHED) {
    if (!Object.hasOwn(response, name)) continue;
    own = Object.assign(own ?? {}, { [name]: response[name] });
    Object.assign(response, { [name]: watching[name] });
  }
  return own;
}

interface Layer {
  readonly prototype: object;
  readonly methods: Methods;
}

const layers = new WeakMap<object, Layer>();

function layerOver(plain: ServerResponse): Layer {
  let layer = layers.get(plain);
  if (layer === undefined) {
    const { writeHead, write, end, flushHeaders, destroy } = plain;
    const prototype = Object.create(plain, {
      setHeader: {
        configurable: true,
        writable: true,
        value(this: Watched, name: string, value: number | string | readonly string[]) {
          if (this[WATCHER].isSealed) throw tooLate();
          return plain.setHeader.call(this, name, value);
        },
      },
      headersSent: {
        configurable: true,
        get(this: Watched): boolean {
          return this[WATCHER].isHeaded || Reflect.get(plain, 'headersSent', this) === true;
        },
      },
    }) as object;
    layer = {
      prototype: Object.assign(prototype, watching),
      methods: { writeHead, write, end, flushHeaders, destroy },
    };
    layers.set(plain, layer);
  }
  return layer;
}

/** What Node throws itself once the head has gone out. */
function tooLate(): Error {
  const error = new Error('the answer is complete: no header can be set after it');
  return Object.assign(error, { code: 'ERR_HTTP_HEADERS_SENT' });
}

const watching = {
  writeHead(this: Watched, status: number, ...rest: unknown[]) {
    this[WATCHER].writeHead(status, rest);
    return this;
  },
  write(this: Watched, chunk: unknown, second?: unknown, third?: unknown) {
    const encoding = typeof second === 'string' ? (second as BufferEncoding) : undefined;
    const done = (typeof second === 'function' ? second : third) as Done | undefined;
    return this[WATCHER].write(chunk, encoding, done);
  },
  end(this: Watched, first?: unknown, second?: unknown, third?: unknown) {
    const done = [first, second, third].find((value) => typeof value === 'function');
    const chunk = typeof first === 'function' ? undefined : first;
    const encoding = typeof second === 'string' ? (second as BufferEncoding) : undefined;
    this[WATCHER].end(chunk, encoding, done as Done | undefined);
    return this;
  },
  flushHeaders(this: Watched) {
    this[WATCHER].flushHeaders();
  },
  destroy(this: Watched, error?: Error) {
    this[WATCHER].destroy(error);
    return this;
  },
};

function onClose(this: ServerResponse): void {
  (this as Watched)[WATCHER].closed();
}
