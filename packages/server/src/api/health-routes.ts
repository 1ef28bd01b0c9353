import { z } from 'zod';
import type { Program } from '../compose.ts';
import { requireRole } from './credential-check.ts';
import { problem } from './fields.ts';
import { Problem } from './problem.ts';
import { isOutOfRoom, storeProblem } from './store-problem.ts';
import type { Api } from './zod-schemas.ts';

const tags = ['health'];
const refusals = { '4xx': problem, '5xx': problem };

const statsAnswer = z.object({
  store: z.object({ name: z.string(), durability: z.string(), max_record_bytes: z.int() }),
  records: z.object({
    pending: z.int(),
    committed: z.int(),
    rejected: z.int(),
    in_doubt: z.int(),
  }),
  near: z.object({
    answers: z.int(),
    bytes: z.int(),
    running: z.int(),
    evictions: z.int(),
  }),
  uptime_seconds: z.number(),
  rss_bytes: z.int(),
});

/** Whether it lives, whether it can serve, and how it is doing. */
export function healthRoutes(api: Api, program: Program, isClosing: () => boolean): void {
  const { engine, metrics, credentials, log } = program;

  api.get(
    '/healthz',
    {
      schema: {
        tags,
        summary: 'The process lives',
        response: { 200: z.object({ status: z.literal('ok'), service: z.literal('onceward') }) },
      },
    },
    async () => ({ status: 'ok' as const, service: 'onceward' as const }),
  );

  api.get(
    '/readyz',
    {
      schema: {
        tags,
        summary:
          'Requests can be served: the store reads and writes, and no shutdown was requested',
        response: { 200: z.object({ status: z.literal('ready') }), 503: problem },
      },
    },
    async () => {
      if (isClosing()) throw new Problem('closing', 'the server is finishing what it has begun');
      await engine.ping().catch((error: unknown) => {
        log.error({ err: error }, 'not ready');
        throw storeProblem(error);
      });
      if (program.ledger?.failure !== undefined) {
        const why = isOutOfRoom(program.ledger.failure) ? ' because the disk is full' : '';
        const detail = `the ledger has stopped${why}; see the log, fix the cause and restart the server`;
        throw new Problem('store-unavailable', detail);
      }
      return { status: 'ready' as const };
    },
  );

  api.get('/metrics', { schema: { tags, summary: 'For Prometheus' } }, async (_request, reply) => {
    const text = await metrics.registry.metrics();
    return reply.type(metrics.registry.contentType).send(text);
  });

  api.get(
    '/admin/stats',
    {
      onRequest: requireRole(credentials, ['admin', 'read_only']),
      schema: {
        tags: ['admin'],
        summary: 'What is kept, where, and by what',
        response: { 200: statsAnswer, ...refusals },
      },
    },
    async () => {
      const { name, durability, maxRecordBytes } = engine.store.traits;
      const { answers, bytes, running, evictions } = engine.near;
      return {
        store: { name, durability, max_record_bytes: maxRecordBytes },
        records: await engine.count(),
        near: { answers, bytes, running, evictions },
        uptime_seconds: Math.round(process.uptime() * 1_000) / 1_000,
        rss_bytes: process.memoryUsage.rss(),
      };
    },
  );
}
