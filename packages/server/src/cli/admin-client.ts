import type { Settings } from '../config/settings.ts';
import { CommandFailure } from './exit-code.ts';

/** The server as the commands see it. */
export interface AdminClient {
  get<T>(path: string): Promise<T>;
  send<T>(method: 'POST' | 'DELETE', path: string, body?: unknown): Promise<T>;
  /** The answer's body as it comes, for streams and for text. */
  open(path: string, signal?: AbortSignal): Promise<Response>;
}

const TIMEOUT_MS = 30_000;

type Access = Pick<Settings, 'url' | 'apiKey' | 'apiSecret'>;

export function adminClient(access: Access): AdminClient {
  const reach = (path: string, init: RequestInit): Promise<Response> =>
    fetch(address(access.url, path), { ...init, redirect: 'error' }).catch((cause: unknown) => {
      if (init.signal?.aborted === true && (cause as Error).name === 'AbortError') throw cause;
      throw new CommandFailure('unreachable', unreachable(access.url, cause), cause);
    });
  const bounded = () => AbortSignal.timeout(TIMEOUT_MS);
  let recognised: Promise<void> | null = null;
  const ask = async (path: string, init: RequestInit): Promise<Response> => {
    recognised ??= recognise(access.url, () => reach('/healthz', { signal: bounded() }));
    await recognised;
    const headers = { ...credentialOf(access), ...init.headers };
    const response = await reach(path, { ...init, headers });
    if (!response.ok) throw await refusal(response);
    return response;
  };
  return {
    async get<T>(path: string) {
      return (await (await ask(path, { signal: bounded() })).json()) as T;
    },
    async send<T>(method: string, path: string, body?: unknown) {
      const response = await ask(path, {
        method,
        signal: bounded(),
        ...(body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      });
      const text = await response.text();
      return (text === '' ? null : JSON.parse(text)) as T;
    },
    open: (path, signal) => ask(path, signal === undefined ? {} : { signal }),
  };
}

/** The default address may be that of a gateway, which would hand the credential on to the API behind it. */
async function recognise(url: URL, ask: () => Promise<Response>): Promise<void> {
  const answer = await ask();
  const { service } = (await answer.json().catch(() => ({}))) as { service?: unknown };
  if (service === 'onceward') return;
  throw new CommandFailure(
    'unreachable',
    `${url.href} answers, but not as onceward does, so no credential was sent; is --url right? A gateway has an admin port of its own (8081).`,
  );
}

export function recordPath(scope: string, key: string): string {
  return `/admin/idempotency/${encodeURIComponent(scope)}/${encodeURIComponent(key)}`;
}

function address(base: URL, path: string): URL {
  return new URL(base.href.replace(/\/$/, '') + path);
}

function credentialOf({ apiKey, apiSecret }: Access): Record<string, string> {
  if (apiKey === null || apiSecret === null) return {};
  return { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
}

function unreachable(url: URL, cause: unknown): string {
  const inner = (cause as { cause?: { code?: string } }).cause?.code;
  const why = inner ?? (cause as Error).name;
  return `cannot reach ${url.href} (${why}); is the server running, and is --url right?`;
}

async function refusal(response: Response): Promise<CommandFailure> {
  const text = await response.text().catch(() => '');
  const detail = detailOf(text) ?? `HTTP ${response.status}`;
  if (response.status === 404) return new CommandFailure('absent', detail);
  if (response.status === 401) {
    const how = 'set ONCEWARD_API_KEY and ONCEWARD_API_SECRET, or --api-key and --api-secret';
    return new CommandFailure('refused', `${detail} (${how})`);
  }
  return new CommandFailure(response.status >= 500 ? 'failed' : 'refused', detail);
}

function detailOf(text: string): string | null {
  try {
    const { detail } = JSON.parse(text) as { detail?: unknown };
    return typeof detail === 'string' ? detail : null;
  } catch {
    return null;
  }
}
