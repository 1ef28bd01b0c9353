/** Names and values in turn, a repeated header repeated: the shape that Node reads and writes fastest. */
export type HeaderList = readonly string[];

export function findHeader(headers: HeaderList, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === name) return headers[i + 1];
  }
  return undefined;
}

/** Headers that belong to one connection, not to the answer. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Those, and headers of one exchange: credentials, cookies, clocks, and what a replay says itself. */
const NOT_REPLAYED = new Set([
  ...HOP_BY_HOP,
  'date',
  'set-cookie',
  'set-cookie2',
  'authorization',
  'www-authenticate',
  'authentication-info',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-authentication-info',
  'cache-control',
  'content-length',
  'idempotency-replayed',
  'idempotency-replay-count',
  'idempotency-kept-until',
  'idempotent-replayed',
  'x-idempotency-key',
]);

/** Says of a header whether it ends with its connection, the ones that `Connection` names included. */
export function isHopByHop(name: string, connection: string | undefined): boolean {
  if (HOP_BY_HOP.has(name)) return true;
  if (connection === undefined) return false;
  return connection.split(',').some((token) => token.trim().toLowerCase() === name);
}

/** What of an answer's headers is kept to be sent again. */
export function replayableHeaders(headers: HeaderList): string[] {
  const kept: string[] = [];
  let connection: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!.toLowerCase();
    if (name === 'connection') connection ??= headers[i + 1];
    if (!NOT_REPLAYED.has(name)) kept.push(name, headers[i + 1]!);
  }
  if (connection === undefined) return kept;
  return kept.filter((_, i) => !isHopByHop(kept[i - (i % 2)]!, connection));
}
