import type { FastifyReply } from 'fastify';
import type { EngineEvent, OperationId } from 'onceward';
import { isRun } from 'onceward/jobs';
import { maskKey } from 'onceward/keys';
import type { Program } from '../../compose.ts';
import { requireRole } from '../credential-check.ts';
import { Problem } from '../problem.ts';
import type { Api } from '../zod-schemas.ts';

const MOST_STREAMS = 100;
/** A reader that lags behind by more than this misses events, and gets their count. */
const MOST_UNSENT_BYTES = 262_144;
const HEARTBEAT_MS = 15_000;

/** Server-sent events: what the engine does, as it does it. */
export function eventStream(api: Api, program: Program): void {
  const streams = new Set<EventStream>();
  program.events.listen((event) => {
    if (streams.size === 0) return;
    const text = describe(event);
    for (const stream of streams) stream.send(text);
  });
  const heartbeat = setInterval(() => {
    for (const stream of streams) stream.beat();
  }, HEARTBEAT_MS);
  heartbeat.unref();

  api.addHook('preClose', async () => {
    clearInterval(heartbeat);
    for (const stream of streams) stream.end();
  });

  api.get(
    '/admin/events',
    {
      onRequest: requireRole(program.credentials, ['admin', 'read_only']),
      schema: { tags: ['admin'], summary: 'Events as they happen (text/event-stream)' },
    },
    async (_request, reply) => {
      if (streams.size >= MOST_STREAMS) {
        const detail = `${MOST_STREAMS} readers are listening already`;
        throw new Problem('busy', detail, { retryAfterSeconds: 10 });
      }
      reply.hijack();
      const stream = new EventStream(reply);
      streams.add(stream);
      reply.raw.on('close', () => streams.delete(stream));
    },
  );
}

class EventStream {
  readonly #out: FastifyReply['raw'];
  #missed = 0;

  constructor(reply: FastifyReply) {
    this.#out = reply.raw;
    this.#out.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      // Nothing follows on this connection; kept alive, it would hold up the end of the server.
      connection: 'close',
    });
    this.#out.write(': listening\n\n');
  }

  send(text: string): void {
    if (this.#out.writableLength > MOST_UNSENT_BYTES) {
      this.#missed += 1;
      return;
    }
    if (this.#missed > 0) {
      this.#out.write(`event: missed\ndata: {"count":${this.#missed}}\n\n`);
      this.#missed = 0;
    }
    this.#out.write(text);
  }

  /** A comment, so that proxies do not take silence for death. */
  beat(): void {
    if (this.#out.writableLength === 0) this.#out.write(': beat\n\n');
  }

  end(): void {
    this.#out.end();
  }
}

function describe(event: EngineEvent): string {
  const { type, ...rest } = event;
  return `event: ${type}\ndata: ${JSON.stringify({ at: Date.now(), type, ...facts(rest) })}\n\n`;
}

function named({ scope, key }: OperationId): Record<string, unknown> {
  return { scope, key, key_hint: maskKey(key) };
}

function facts(rest: Record<string, unknown>): Record<string, unknown> {
  const { id, error, ...plain } = rest as { id?: OperationId; error?: unknown };
  return {
    ...(id === undefined ? {} : { ...named(id), of: isRun(id) ? 'run' : 'request' }),
    ...(error === undefined ? {} : { error: error instanceof Error ? error.message : 'unknown' }),
    ...plain,
  };
}
