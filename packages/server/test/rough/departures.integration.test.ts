import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startServer } from '../running-program.ts';
import { ask, look, RawClient } from './raw-client.ts';

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

const bytes = (...lines: readonly string[]) => Buffer.from(lines.join('\r\n'));

describe('clients that rough traffic found the server unprepared for', () => {
  it('[U3] a connection that is reset after CONNECT ends nothing but itself', async () => {
    for (let times = 0; times < 10; times += 1) {
      const client = new RawClient(server.url);
      client.write(bytes('CONNECT a:1 HTTP/1.1', 'Host: a', '', ''));
      await client.until(() => client.received.length > 0, 5_000);
      client.leave('reset');
    }
    expect(await look(server.url, '/healthz')).toContain('ok');
    expect(server.program.stderr).toBe('');
  });

  it('[H17] a client that leaves in the middle of a stream is no failure in the log', async () => {
    const body = '{"item":"a","amount":1}';
    const head = ['POST /demo/v1/orders?stream=50 HTTP/1.1', `Host: ${new URL(server.url).host}`];
    const about = ['Content-Type: application/json', `Content-Length: ${body.length}`];
    for (let times = 0; times < 5; times += 1) {
      const client = new RawClient(server.url);
      client.write(bytes(...head, ...about, `Idempotency-Key: left-${times}`, '', body));
      await client.until(() => client.received.includes('chunk 2'), 5_000);
      client.leave('destroy');
    }
    const patient = bytes(...head, ...about, 'Idempotency-Key: stayed', '', body);
    const { answer } = await ask(server.url, patient, 10_000);
    expect(answer?.body.toString()).toContain('chunk 50');
    expect(server.program.stderr).not.toContain('"msg":"failed"');
  });
});
