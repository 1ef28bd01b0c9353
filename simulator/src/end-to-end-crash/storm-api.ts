import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Charge } from './journal.ts';

export interface StormApi {
  readonly isStormy: () => boolean;
  readonly charge: (charge: Charge) => void;
}

/**
 * An API that charges whatever reaches it, and knows nothing of keys. In a storm it turns away, breaks off and falls
 * silent, before it has acted and after.
 */
export async function serveCharge(
  { isStormy, charge }: StormApi,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body = '';
  for await (const piece of request) body += piece;
  const chance = isStormy() ? Math.random() : 1;
  if (chance < 0.06) return void request.socket.destroy();
  if (chance < 0.12) return;
  if (chance < 0.25) return void response.writeHead(503, { 'retry-after': '0' }).end();
  const { refuse, ...wanted } = JSON.parse(body) as Charge & { refuse: boolean };
  if (refuse) return void response.writeHead(422).end();
  charge({ ...wanted, key: String(request.headers['idempotency-key']) });
  if (chance < 0.35) return void request.socket.destroy();
  if (chance < 0.45) return;
  response.writeHead(201, { 'content-type': 'application/json' }).end('{"ok":true}');
}
