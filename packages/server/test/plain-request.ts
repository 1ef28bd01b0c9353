import { request } from 'node:http';

export interface PlainAnswer {
  readonly status: number;
  readonly body: { readonly type?: string; readonly detail?: string };
}

export interface PlainRequest {
  readonly method?: string;
  /** Any of them, also `Host`, which `fetch` does not let be chosen. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
}

const HANG_MS = 20_000;

/** A request whose every header can be chosen. It ends as soon as the status is known where the answer has no end. */
export function askPlainly(url: string, asked: PlainRequest = {}): Promise<PlainAnswer> {
  const { method = 'GET', headers = {}, json } = asked;
  const body = json === undefined ? undefined : JSON.stringify(json);
  const type = body === undefined ? {} : { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { ...type, ...headers }, agent: false });
    sent.setTimeout(HANG_MS, () => sent.destroy(new Error(`no answer from ${url}`)));
    sent.on('error', reject);
    sent.on('response', (response) => {
      const status = response.statusCode ?? 0;
      if (response.headers['content-type']?.startsWith('text/event-stream') === true) {
        response.destroy();
        resolve({ status, body: {} });
        return;
      }
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('error', reject);
      response.on('end', () => resolve({ status, body: parse(text) }));
    });
    sent.end(body);
  });
}

function parse(text: string): PlainAnswer['body'] {
  try {
    return JSON.parse(text) as PlainAnswer['body'];
  } catch {
    return {};
  }
}
