import type { IncomingMessage, ServerResponse } from 'node:http';

export type ReadBody =
  | { readonly kind: 'whole'; readonly bytes: Uint8Array }
  /** Longer than the limit: what was read of it, and where the rest is. */
  | { readonly kind: 'over'; readonly held: readonly Uint8Array[]; readonly rest: IncomingMessage }
  | { readonly kind: 'gone' };

/** How long the body says it is; `null` where it does not say. */
export function declaredLength(request: IncomingMessage): number | null {
  const { headers } = request;
  if (headers['transfer-encoding'] !== undefined) return null;
  return Number(headers['content-length'] ?? 0);
}

/** Reads a body up to a limit. One that says it is longer is not begun. */
export function readBody(request: IncomingMessage, limit: number): Promise<ReadBody> {
  const declared = declaredLength(request);
  if (declared === 0) return Promise.resolve({ kind: 'whole', bytes: Buffer.alloc(0) });
  if (declared !== null && declared > limit) {
    return Promise.resolve({ kind: 'over', held: [], rest: request });
  }
  return new Promise((resolve) => {
    const held: Buffer[] = [];
    let length = 0;
    const finish = (result: ReadBody) => {
      // Any of these left behind would keep what was read for as long as the connection lasts.
      request.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose);
      request.on('error', ignoreError);
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      held.push(chunk);
      length += chunk.length;
      if (length <= limit) return;
      request.pause();
      finish({ kind: 'over', held, rest: request });
    };
    const onEnd = () => {
      const bytes = held.length === 1 ? held[0]! : Buffer.concat(held, length);
      finish({ kind: 'whole', bytes });
    };
    const onClose = () => finish({ kind: 'gone' });
    request.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose);
  });
}

/** Whoever waited for the body has been told; what comes after is nobody's. */
function ignoreError(): void {}

/** What was read already, then the rest. */
export async function* resumed(
  body: Extract<ReadBody, { kind: 'over' }>,
): AsyncIterable<Uint8Array> {
  yield* body.held;
  yield* body.rest as AsyncIterable<Uint8Array>;
}

/** How long a client whose body is not wanted has to read the answer before the connection is cut. */
const UNWANTED_BODY_MS = 1_000;

/**
 * The rest of the body is left unread. Reading it only to throw it away would let a thousand clients fill the memory
 * with rubbish faster than it is collected. The connection is closed in our direction and cut a while later: cutting
 * it at once, with bytes unread, takes the answer out of the client's hands.
 */
export function refuseBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return;
  const { socket } = request;
  response.setHeader('connection', 'close');
  request.pause();
  socket.destroySoon = () => {
    socket.end();
    setTimeout(() => socket.destroy(), UNWANTED_BODY_MS).unref();
  };
}
