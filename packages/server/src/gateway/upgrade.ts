import { request as httpRequest, type IncomingMessage, STATUS_CODES } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Duplex } from 'node:stream';
import type { Metrics } from '../observability/metrics.ts';
import { faultAnswer } from './fault-answer.ts';
import { answerHeaders, requestHeaders } from './forwarded-headers.ts';

/** Carries a WebSocket, or whatever else is asked for with `Upgrade`, between client and upstream. */
export function forwardUpgrade(
  url: URL,
  metrics: Metrics,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
): void {
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  const headers = requestHeaders(request, null);
  const asked = send(new URL(url.pathname.replace(/\/$/, '') + request.url, url.origin), {
    method: request.method,
    headers: [...headers, 'connection', 'Upgrade', 'upgrade', request.headers.upgrade ?? ''],
    setHost: true,
  });
  client.on('error', () => asked.destroy());
  client.once('close', () => asked.destroy());
  asked.once('upgrade', (answer, server, serverHead) => {
    const agreed = ['connection', 'Upgrade', 'upgrade', answer.headers.upgrade ?? ''];
    client.write(headOf(answer, [...answerHeaders(answer.rawHeaders), ...agreed]));
    if (serverHead.length > 0) client.write(serverHead);
    if (head.length > 0) server.write(head);
    server.on('error', () => client.destroy());
    server.once('close', () => client.destroy());
    client.once('close', () => server.destroy());
    server.pipe(client);
    client.pipe(server);
  });
  asked.once('response', (answer) => {
    // It did not agree. What it says instead ends with the connection, so no length is needed.
    client.write(headOf(answer, [...answerHeaders(answer.rawHeaders), 'connection', 'close']));
    answer.pipe(client);
  });
  asked.once('error', () => {
    metrics.countUpstreamFault('refused');
    const { status, headers, body } = faultAnswer('refused', false);
    const all = [...headers, 'content-length', String(body.length), 'connection', 'close'];
    const told = { statusCode: status, statusMessage: STATUS_CODES[status] };
    if (!client.destroyed) client.end(headOf(told, all) + Buffer.from(body).toString());
  });
  asked.end();
}

function headOf(
  answer: { statusCode?: number | undefined; statusMessage?: string | undefined },
  headers: readonly string[],
): string {
  let head = `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage ?? ''}\r\n`;
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${head}\r\n`;
}
