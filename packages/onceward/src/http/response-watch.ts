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

/** Its class has been wrapped: `null` until a response is given a watcher. */
type Watched = ServerResponse & { [WATCHER]: ResponseWatcher | null };

/** A response is watched by one door only: a second one would wait for the first. */
export function isWatched(response: ServerResponse): boolean {
  return WATCHER in response && (response as Watched)[WATCHER] !== null;
}

/**
 * Puts a watcher between a response and its methods, and gives the methods as they were. They are wrapped once, on the
 * class of the response: wrapped on each, they would make it slow, and on a prototype slipped in between they would be
 * gone as soon as a framework sets the prototype itself, as every Express application does.
 * The watcher stays when its work is done, since others may have wrapped the methods in the meantime.
 */
export function watchResponse(response: ServerResponse, watcher: ResponseWatcher): Methods {
  const { plain, watching } = wrappedClassOf(response);
  const own = takeOwnMethods(response, watching);
  (response as Watched)[WATCHER] = watcher;
  response.on('close', onClose);
  return own === null ? plain : { ...plain, ...own };
}

/** A middleware before us has put methods of its own on the response: ours go over them. */
function takeOwnMethods(response: ServerResponse, watching: Methods): Partial<Methods> | null {
  let own: Partial<Methods> | null = null;
  for (const name of WATCHED) {
    if (!Object.hasOwn(response, name)) continue;
    own = Object.assign(own ?? {}, { [name]: response[name] });
    Object.assign(response, { [name]: watching[name] });
  }
  return own;
}

interface WrappedClass {
  /** The methods as they were. */
  readonly plain: Methods;
  /** What stands in their place, and is they for a response that has no watcher. */
  readonly watching: Methods;
}

const wrappedClasses = new WeakMap<object, WrappedClass>();

function wrappedClassOf(response: ServerResponse): WrappedClass {
  const prototype = classOf(response);
  let wrapped = wrappedClasses.get(prototype);
  if (wrapped === undefined) {
    wrapped = wrapClass(prototype);
    wrappedClasses.set(prototype, wrapped);
  }
  return wrapped;
}

/** The prototype that writes heads: Node's own, under those that frameworks put before it. */
function classOf(response: ServerResponse): ServerResponse {
  let found = response;
  for (
    let prototype = Object.getPrototypeOf(response) as ServerResponse | null;
    prototype !== null;
    prototype = Object.getPrototypeOf(prototype) as ServerResponse | null
  ) {
    if (Object.hasOwn(prototype, 'writeHead')) found = prototype;
  }
  return found;
}

function wrapClass(prototype: ServerResponse): WrappedClass {
  const { writeHead, write, end, flushHeaders, destroy } = prototype;
  const plain = { writeHead, write, end, flushHeaders, destroy };
  const watching = watchingMethods(plain);
  const { setHeader } = prototype;
  const isSent = getterOf(prototype, 'headersSent');
  Object.defineProperties(prototype, {
    [WATCHER]: { configurable: true, writable: true, value: null },
    setHeader: {
      configurable: true,
      writable: true,
      value(this: Watched, name: string, value: number | string | readonly string[]) {
        if (this[WATCHER]?.isSealed) throw tooLate();
        return setHeader.call(this, name, value);
      },
    },
    headersSent: {
      configurable: true,
      get(this: Watched): boolean {
        return this[WATCHER]?.isHeaded === true || isSent.call(this) === true;
      },
    },
  });
  Object.assign(prototype, watching);
  return { plain, watching };
}

function getterOf(prototype: object, name: string): () => unknown {
  for (let owner = prototype; owner !== null; owner = Object.getPrototypeOf(owner) as object) {
    const get = Object.getOwnPropertyDescriptor(owner, name)?.get;
    if (get !== undefined) return get;
  }
  throw new TypeError(`responses of this kind have no ${name}`);
}

/** What Node throws itself once the head has gone out. */
function tooLate(): Error {
  const error = new Error('the answer is complete: no header can be set after it');
  return Object.assign(error, { code: 'ERR_HTTP_HEADERS_SENT' });
}

function watchingMethods(plain: Methods): Methods {
  const methods = {
    writeHead(this: Watched, status: number, ...rest: unknown[]) {
      const watcher = this[WATCHER];
      if (watcher === null) return Reflect.apply(plain.writeHead, this, [status, ...rest]);
      watcher.writeHead(status, rest);
      return this;
    },
    write(this: Watched, chunk: unknown, second?: unknown, third?: unknown) {
      const watcher = this[WATCHER];
      if (watcher === null) return plain.write.call(this, chunk, second as never, third as never);
      const encoding = typeof second === 'string' ? (second as BufferEncoding) : undefined;
      const done = (typeof second === 'function' ? second : third) as Done | undefined;
      return watcher.write(chunk, encoding, done);
    },
    end(this: Watched, first?: unknown, second?: unknown, third?: unknown) {
      const watcher = this[WATCHER];
      if (watcher === null) return plain.end.call(this, first, second as never, third as never);
      const chunk = typeof first === 'function' ? undefined : first;
      const encoding = typeof second === 'string' ? (second as BufferEncoding) : undefined;
      watcher.end(chunk, encoding, doneOf(first) ?? doneOf(second) ?? doneOf(third));
      return this;
    },
    flushHeaders(this: Watched) {
      const watcher = this[WATCHER];
      if (watcher === null) plain.flushHeaders.call(this);
      else watcher.flushHeaders();
    },
    destroy(this: Watched, error?: Error) {
      const watcher = this[WATCHER];
      if (watcher === null) return plain.destroy.call(this, error);
      watcher.destroy(error);
      return this;
    },
  };
  return methods as Methods;
}

function doneOf(argument: unknown): Done | undefined {
  return typeof argument === 'function' ? (argument as Done) : undefined;
}

function onClose(this: ServerResponse): void {
  (this as Watched)[WATCHER]?.closed();
}
