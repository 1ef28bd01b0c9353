import { ClientError } from './client-error.ts';
import type { ClientWorld } from './client-world.ts';
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

const LONGEST_NAME = 100;
const LARGEST_BODY = 5 * 1_024 * 1_024;

/** They would be written to the device's disk, and be stale when the request is sent. */
const NOT_STORED = /^(proxy-)?authorization$|^cookie$|^x-api-secret$/;
const KEY_HEADERS = /^(x-)?idempotency-key$/;

/** Shared by all requests that name none themselves. */
const NO_HEADERS = {};
const JSON_HEADERS = { 'content-type': 'application/json' };

/** Checks a request and brings it into the form that is stored, of which the giver holds no part. */
export function takeRequest(given: OutboxRequest): StoredRequest {
  const { json, body } = given;
  const method = given.method?.toUpperCase() ?? 'POST';
  if (method !== 'POST') {
    if (!/^[A-Z]+$/.test(method)) throw invalid(`${method} is not an HTTP method`);
    if (/^(GET|HEAD)$/.test(method)) throw invalid(`for ${method} call fetch`);
  }
  const url = String(given.url);
  if (!url) throw invalid('url is empty');
  if (json !== undefined && body !== undefined) throw invalid('give json or body, not both');
  let headers: Record<string, string> = json === undefined ? NO_HEADERS : JSON_HEADERS;
  // The class is the browser's own and slow to make: most requests name no headers.
  if (given.headers) {
    headers = { ...headers };
    for (const [name, value] of new Headers(given.headers)) {
      if (NOT_STORED.test(name)) {
        throw invalid(`header ${name} is a credential, never stored: give it in auth.headers`);
      }
      if (KEY_HEADERS.test(name)) {
        throw invalid(`header ${name} is set by the outbox: give it as key`);
      }
      headers[name] = value;
    }
  }
  const taken = json === undefined ? body : JSON.stringify(json);
  if (taken === undefined && json !== undefined) throw invalid('json is not a JSON value');
  // Before bytes are turned into text, which takes long if there are many.
  if (taken && taken.length > LARGEST_BODY) {
    throw invalid(`the body has a length of ${taken.length}; the limit is ${LARGEST_BODY}`);
  }
  const isBytes = taken instanceof Uint8Array;
  return {
    method,
    url,
    headers,
    body: isBytes ? toBase64(taken) : (taken ?? null),
    bodyEncoding: isBytes ? 'base64' : 'text',
  };
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

/** Tells whether two requests ask for the same: headers aside, they are equal to the letter. */
export function fingerprintOf(
  requests: readonly StoredRequest[],
  world: ClientWorld,
): Promise<string> {
  const told = requests.map(({ method, url, body, bodyEncoding }) => [
    method,
    url,
    bodyEncoding,
    body,
  ]);
  return world.digest(JSON.stringify(told));
}

/** What any header can carry; the server holds the key to the syntax of its profile. */
export function checkKey(key: string | undefined): void {
  if (key !== undefined && !/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw invalid('key has 1 to 255 visible ASCII characters, no spaces');
  }
}

export function checkName(what: string, name: string): void {
  if (name.length < 1 || name.length > LONGEST_NAME || !name.isWellFormed()) {
    throw invalid(`${what} has 1 to ${LONGEST_NAME} whole characters, not ${name.length}`);
  }
}

/** Refuses members that nobody reads: a misspelt option would otherwise pass in silence. */
export function checkOptions(options: object, known: Readonly<Record<string, true>>): void {
  for (const name of Object.keys(options)) {
    if (!(name in known)) {
      throw invalid(`${name} is not an option; these are: ${Object.keys(known).join(', ')}`);
    }
  }
}

export function invalid(message: string): ClientError {
  return new ClientError('INVALID_INPUT', message);
}
