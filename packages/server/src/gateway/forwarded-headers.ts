import type { IncomingMessage } from 'node:http';
import { isHopByHop } from 'onceward/http';

/** Names that are set again for the next connection. */
const OWN = new Set([
  'host',
  'expect',
  'content-length',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
]);

/** The request's headers as the upstream gets them, less those of this connection. Names and values in turn. */
export function requestHeaders(request: IncomingMessage, length: number | null): string[] {
  const { rawHeaders, headers, socket } = request;
  const connection = listOfNames(headers.connection);
  const list: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    const lower = name.toLowerCase();
    if (OWN.has(lower) || isHopByHop(lower, connection)) continue;
    list.push(name, rawHeaders[i + 1]!);
  }
  if (length !== null) list.push('content-length', String(length));
  const client = socket.remoteAddress ?? 'unknown';
  const before = headers['x-forwarded-for'];
  list.push('x-forwarded-for', before === undefined ? client : `${before}, ${client}`);
  list.push('x-forwarded-proto', single(headers['x-forwarded-proto']) ?? 'http');
  const host = single(headers['x-forwarded-host']) ?? headers.host;
  if (host !== undefined) list.push('x-forwarded-host', host);
  return list;
}

/** The answer's headers as the client gets them, less those of the connection to the upstream. */
export function answerHeaders(raw: readonly string[]): string[] {
  const connection = listOfNames(joinedValue(raw, 'connection'));
  const list: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    if (!isHopByHop(raw[i]!.toLowerCase(), connection)) list.push(raw[i]!, raw[i + 1]!);
  }
  return list;
}

/** Most often `Connection` names no header at all, and then there is nothing to compare each header with. */
function listOfNames(connection: string | undefined): string | undefined {
  return connection === undefined || /^(keep-alive|close)$/i.test(connection)
    ? undefined
    : connection;
}

/** All the values of a header, joined as lists are. */
export function joinedValue(raw: readonly string[], name: string): string | undefined {
  const values: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.toLowerCase() === name) values.push(raw[i + 1]!);
  }
  return values.length === 0 ? undefined : values.join(', ');
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
