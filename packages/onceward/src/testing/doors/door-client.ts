import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';

export interface DoorRequest {
  readonly method?: string;
  readonly path?: string;
  readonly key?: string;
  readonly user?: string;
  readonly credential?: string;
  /** Sent as it is when it is text or bytes, as JSON otherwise. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

export interface DoorReply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
  readonly text: string;
  /** The reply as JSON. */
  json(): Record<string, unknown>;
}

/** A client that sends header lines as they are given, which `fetch` does not. */
export class DoorClient {
  readonly #url: string;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(url: string) {
    this.#url = url;
  }

  send(sending: DoorRequest = {}): Promise<DoorReply> {
    return new Promise((resolve, reject) => {
      const sent = this.begin(sending, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => resolve(toReply(response, Buffer.concat(chunks))));
      });
      sent.on('error', reject);
    });
  }

  /** For what `send` hides: the first bytes of a stream, hanging up half-way. */
  begin(sending: DoorRequest, onResponse: (response: IncomingMessage) => void): ClientRequest {
    const { method = 'POST', path = '/orders', body } = sending;
    const payload = toPayload(body);
    const headers: Record<string, string | string[]> = { 'x-user': sending.user ?? 'ada' };
    if (sending.key !== undefined) headers['idempotency-key'] = sending.key;
    if (sending.credential !== undefined) headers.authorization = sending.credential;
    if (payload !== null) {
      headers['content-type'] = 'application/json';
      headers['content-length'] = String(payload.length);
    }
    Object.assign(headers, sending.headers);
    const options = { method, headers, agent: this.#agent };
    const sent = httpRequest(`${this.#url}${path}`, options, onResponse);
    sent.end(payload ?? undefined);
    return sent;
  }

  close(): void {
    this.#agent.destroy();
  }
}

function toPayload(body: unknown): Buffer | null {
  if (body === undefined) return null;
  if (typeof body === 'string' || body instanceof Uint8Array) return Buffer.from(body as string);
  return Buffer.from(JSON.stringify(body));
}

function toReply(response: IncomingMessage, body: Buffer): DoorReply {
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body,
    text: body.toString(),
    json: () => JSON.parse(body.toString()) as Record<string, unknown>,
  };
}
