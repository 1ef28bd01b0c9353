import type { ServerResponse } from 'node:http';

/** The methods of a response through which all its bytes and headers go. */
export type Methods = Pick<
  ServerResponse,
  | 'writeHead'
  | 'write'
  | 'end'
  | 'flushHeaders'
  | 'destroy'
  | 'setHeader'
  | 'appendHeader'
  | 'removeHeader'
>;

export type Done = (error?: Error | null) => void;

/** Is called in place of the methods, and decides what reaches them. */
export interface ResponseWatcher {
  /** The methods as they were found: Node's own, or those of a neighbour before this one. */
  readonly below: Methods;
  /** The head can no longer be changed, though it has not been sent. */
  readonly isHeaded: boolean;
  /** The answer is complete, though it has not been sent: no header can be changed any more. */
  readonly isSealed: boolean;
  writeHead(status: number, rest: readonly unknown[]): void;
  write(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): boolean;
  end(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): void;
  flushHeaders(): void;
  destroy(error: Error | undefined): void;
  /** The connection is closed. */
  closed(): void;
}

const WATCHER = Symbol('onceward.watcher');

/**
 * To V8 of Node 20, each property that is added to an object whose prototype was set makes a class of its own, copied
 * from the one before: nine of them took 80 µs a response. An object that has lost a property is a dictionary, to
 * which they are added cheaply; so it is given one to lose.
 */
const ROOM = Symbol('onceward.room');

type Watched = ServerResponse & { [WATCHER]: ResponseWatcher; [ROOM]?: boolean };

/** A response is watched by one door only: a second one would wait for the first. */
export function isWatched(response: ServerResponse): boolean {
  return (response as Partial<Watched>)[WATCHER] !== undefined;
}

/** What a watcher calls: each method as it is now, wrapped or not. */
export function methodsOf(response: ServerResponse): Methods {
  const { writeHead, write, end, flushHeaders, destroy } = response;
  const { setHeader, appendHeader, removeHeader } = response;
  return {
    writeHead,
    write,
    end,
    flushHeaders,
    destroy,
    setHeader,
    appendHeader,
    removeHeader,
  };
}

/**
 * Puts a watcher between a response and its methods, as every neighbour does that has something to say about an
 * answer: with methods of our own on the response itself, each of which calls the one that it found there. Nothing
 * that others share is touched, and it stays when a framework sets the prototype of the response, as every Express
 * application does. They stay when the work is done, since others may have wrapped them in the meantime.
 */
export function watchResponse(response: ServerResponse, watcher: ResponseWatcher): void {
  const watched = response as Partial<Watched>;
  watched[ROOM] = true;
  watched[WATCHER] = watcher;
  delete watched[ROOM];
  Object.assign(response, OURS);
  Object.defineProperty(response, 'headersSent', HEADERS_SENT);
  response.on('close', onClose);
}

/** Someone who came after us wants to know when the head is written. */
export function isHeadWrapped(response: ServerResponse): boolean {
  return response.writeHead !== OURS.writeHead;
}

/**
 * The head is being sent. Node writes it by calling `writeHead` of the response: those who came after us have had
 * their call, and the next one is for us and those below.
 */
export function takeHead(response: ServerResponse): void {
  if (response.writeHead !== OURS.writeHead) response.writeHead = OURS.writeHead;
}

/** The same for the whole answer, when those who came after us have said all they had to say. */
export function takeAll(response: ServerResponse): void {
  takeHead(response);
  if (response.write !== OURS.write) response.write = OURS.write;
  if (response.end !== OURS.end) response.end = OURS.end;
}

const OURS = {
  writeHead(this: Watched, status: number, ...rest: unknown[]) {
    this[WATCHER].writeHead(status, rest);
    return this;
  },
  write(this: Watched, chunk: unknown, second?: unknown, third?: unknown) {
    const encoding = typeof second === 'string' ? (second as BufferEncoding) : undefined;
    return this[WATCHER].write(chunk, encoding, doneOf(second) ?? doneOf(third));
  },
  end(this: Watched, first?: unknown, second?: unknown, third?: unknown) {
    const chunk = typeof first === 'function' ? undefined : first;
    const encoding = typeof second === 'string' ? (second as BufferEncoding) : undefined;
    this[WATCHER].end(chunk, encoding, doneOf(first) ?? doneOf(second) ?? doneOf(third));
    return this;
  },
  flushHeaders(this: Watched) {
    this[WATCHER].flushHeaders();
  },
  destroy(this: Watched, error?: Error) {
    this[WATCHER].destroy(error);
    return this;
  },
  setHeader(this: Watched, name: string, value: number | string | readonly string[]) {
    return openMethods(this).setHeader.call(this, name, value);
  },
  appendHeader(this: Watched, name: string, value: string | readonly string[]) {
    return openMethods(this).appendHeader.call(this, name, value);
  },
  removeHeader(this: Watched, name: string) {
    openMethods(this).removeHeader.call(this, name);
  },
} as unknown as Methods;

const HEADERS_SENT: PropertyDescriptor = {
  configurable: true,
  get(this: Watched): boolean {
    if (this[WATCHER].isHeaded) return true;
    return Reflect.get(Object.getPrototypeOf(this) as object, 'headersSent', this) as boolean;
  },
};

/** Says what Node says itself once the head has gone out. */
function openMethods(response: Watched): Methods {
  const watcher = response[WATCHER];
  if (!watcher.isSealed) return watcher.below;
  const error = new Error('the answer is complete: no header can be changed after it');
  throw Object.assign(error, { code: 'ERR_HTTP_HEADERS_SENT' });
}

function doneOf(argument: unknown): Done | undefined {
  return typeof argument === 'function' ? (argument as Done) : undefined;
}

function onClose(this: ServerResponse): void {
  (this as Watched)[WATCHER].closed();
}
