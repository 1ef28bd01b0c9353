import { ClientError } from '../client-error.ts';
import type { ClientWorld } from '../client-world.ts';
import type { StoredRequest } from './operation.ts';

/** A request as the application gives it. At most one of `json` and `body`. */
export interface OutboxRequest {
  /** `POST` unless said otherwise. */
  readonly method?: string;
  readonly url: string | URL;
  readonly headers?: HeadersInit;
  readonly json?: unknown;
  readonly body?: string | Uint8Array;
}

/** What relative addresses are relative to; a `fetch` that was given may have an idea of its own. */
export interface Base {
  readonly base: string | undefined;
}

const LONGEST_NAME = 255;
const LARGEST_BODY = 5 * 1_024 * 1_024;

/** They would be written to the device's disk, and be stale when the request is sent. */
const CREDENTIAL =
  /cookie|token|secret|passw|jwt|[cx]srf|api-?key|authoriz|(^|-)(auth|session|signature|access-key)(-|$)/;
const KEY_HEADERS = /^(x-)?idempotency-/;

/** Checks a request and brings it into the form that is stored, of which the giver holds no part. */
export function takeRequest(given: OutboxRequest, core: Base): StoredRequest {
  const { json, body, url } = Object(given) as OutboxRequest;
  if (!url) throw invalid('url is missing');
  checkOptions(given, 'method,url,headers,json,body');
  const method = given.method?.toUpperCase() ?? 'POST';
  if (/^(GET|HEAD)$/.test(method)) throw invalid(`for ${method} call fetch`);
  if (json !== undefined && body !== undefined) throw invalid('json or body, not both');
  const taken = json === undefined ? body : toJson(json);
  const isBytes = taken instanceof Uint8Array;
  if (taken !== undefined && !isBytes && typeof taken !== 'string') {
    throw invalid('body: text or a Uint8Array');
  }
  // Before bytes are turned into text, which takes long if there are many.
  if (taken && taken.length > LARGEST_BODY) {
    throw invalid(`body: ${taken.length} is over ${LARGEST_BODY}`);
  }
  const request = {
    method,
    url: String(url),
    headers: takeHeaders(given.headers, json !== undefined),
    body: isBytes ? toBase64(taken) : (taken ?? null),
    bodyEncoding: isBytes ? 'base64' : 'text',
  } as const;
  checkSendable(request, core);
  return request;
}

function takeHeaders(given: HeadersInit | undefined, isJson: boolean): Record<string, string> {
  const headers: Record<string, string> = isJson ? { 'content-type': 'application/json' } : {};
  for (const [name, value] of attempt('headers', () => new Headers(given))) {
    if (CREDENTIAL.test(name)) {
      throw invalid(`${name} is a credential: give it in auth.headers`);
    }
    if (KEY_HEADERS.test(name)) {
      throw invalid(`${name}: give it as key`);
    }
    headers[name] = value;
  }
  return headers;
}

export function toJson(value: unknown, what = 'json'): string {
  const text = attempt(what, () => JSON.stringify(value));
  if (text === undefined) throw invalid(`${what} is not a JSON value`);
  return text;
}

/** Throws if the platform would refuse to send it. */
export function checkSendable({ url, method }: StoredRequest, { base }: Base): void {
  const request = attempt('request', () => new Request(new URL(url, base), { method }));
  if (!/^https?:/.test(request.url)) throw invalid(`nothing can be sent to ${url}`);
}

function attempt<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw invalid(`${what}: ${(cause as Error).message}`);
  }
}

function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}

export function bodyBytes(request: StoredRequest): string | Uint8Array<ArrayBuffer> | null {
  if (request.body === null || request.bodyEncoding === 'text') return request.body;
  return Uint8Array.from(atob(request.body), (character) => character.charCodeAt(0));
}

/** Whether two requests are the same: equal byte for byte, headers aside. */
export function fingerprintOf(
  requests: readonly StoredRequest[],
  world: ClientWorld,
): Promise<string> {
  return world.digest(JSON.stringify(requests, ['method', 'url', 'body', 'bodyEncoding']));
}

/** What any header can carry; the server holds the key to the syntax of its profile. */
export function checkKey(key: string | undefined): void {
  if (key !== undefined && !/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw invalid('key: 1 to 255 visible ASCII characters');
  }
}

export function checkName(what: string, name: string): void {
  if (typeof name !== 'string' || !name || name.length > LONGEST_NAME || !name.isWellFormed()) {
    throw invalid(`${what}: 1 to ${LONGEST_NAME} whole characters`);
  }
}

/** What a list of names, with commas between them, has in it. */
type Listed<K extends string> = K extends `${infer First},${infer Rest}` ? First | Listed<Rest> : K;

/** A list of all that options have, and of nothing else; else none. */
type Complete<O, K extends string> = [keyof O, Listed<K>] extends [Listed<K>, keyof O] ? K : never;

/** Refuses unknown members: a misspelt option would otherwise be ignored. */
export function checkOptions<O extends object, K extends string>(
  options: O,
  known: K & Complete<O, K>,
): void {
  for (const name of Object.keys(options)) {
    if (!known.split(',').includes(name)) throw invalid(`${name} is not an option of ${known}`);
  }
}

export function invalid(message: string): ClientError {
  return new ClientError('INVALID_INPUT', message);
}
