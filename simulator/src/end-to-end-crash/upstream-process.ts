import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Charge, writeCharge } from './journal.ts';

/**
 * An API that charges whatever reaches it, and knows nothing of keys. In a storm it turns away, breaks off and falls
 * silent, before it has acted and after.
 */
const [journal = '', port = '', weather = ''] = process.argv.slice(2);
const isStormy = weather === 'storm';

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = '';
  for await (const piece of request) body += piece;
  const chance = isStormy ? Math.random() : 1;
  await sleep(Math.random() * 30);
  if (chance < 0.06) return void request.socket.destroy();
  if (chance < 0.12) return;
  if (chance < 0.25) return void response.writeHead(503, { 'retry-after': '0' }).end();
  const { refuse, ...charge } = JSON.parse(body) as Charge & { refuse: boolean };
  if (refuse) return void response.writeHead(422).end();
  writeCharge(journal, { ...charge, key: String(request.headers['idempotency-key']) });
  if (chance < 0.35) return void request.socket.destroy();
  if (chance < 0.45) return;
  response.writeHead(201, { 'content-type': 'application/json' }).end('{"ok":true}');
}

const server = createServer((request, response) => {
  serve(request, response).catch(() => response.destroy());
});
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'));
