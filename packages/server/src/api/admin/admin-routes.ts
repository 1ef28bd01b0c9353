import type { FastifyRequest } from 'fastify';
import type { Actor, ChangeResult, OperationId } from 'onceward';
import { z } from 'zod';
import type { Program } from '../../compose.ts';
import { principalOf, requireRole } from '../credential-check.ts';
import { durationMs, operationPath, outcome, problem, reason, recordState } from '../fields.ts';
import { keptOutcome, toBase64 } from '../kept-outcome.ts';
import { Problem } from '../problem.ts';
import type { Api } from '../zod-schemas.ts';
import { RecentIds } from './recent-ids.ts';
import { recentRecords } from './recent-records.ts';
import { recordView, viewRecord } from './record-view.ts';
import { resolveAllRoute } from './resolve-all-route.ts';

const DAY_MS = 86_400_000;
const IDS_REMEMBERED = 1_000;

const limit = (initial: number) => z.coerce.number().int().min(1).max(1_000).default(initial);
/** `?state=` with nothing behind it means any. */
const orNothing = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? undefined : value), schema.optional());

const recentQuery = z.strictObject({
  limit: limit(50),
  state: orNothing(recordState),
  scope: orNothing(operationPath.shape.scope),
});
const showQuery = z.strictObject({ body: z.enum(['0', '1']).default('0') });
const purgeQuery = z.strictObject({ reason: reason.default('purged through the admin API') });
const extendBody = z.strictObject({
  ttl_ms: durationMs(1).describe('How long the answer is kept from now on.'),
  reason: reason.default('extended through the admin API'),
});
const resolveBody = z.strictObject({
  as: z
    .enum(['committed', 'rejected', 'void'])
    .describe('`void`: it did not happen, and the key may be used again.'),
  reason,
  outcome: outcome.optional().describe('The answer that retries get.'),
  keep_ms: durationMs(1).default(DAY_MS),
});

const tags = ['admin'];
const refusals = { '4xx': problem, '5xx': problem };
const changed = { 200: recordView.nullable(), ...refusals };

/** Reads records and changes them by hand. Each change has its line in the audit trail before it is made. */
export function adminRoutes(api: Api, program: Program): void {
  const { engine, credentials, config, quota } = program;
  const mayRead = { onRequest: requireRole(credentials, ['admin', 'read_only']) };
  const change = { onRequest: requireRole(credentials, ['admin']) };
  const recent = new RecentIds(IDS_REMEMBERED);
  program.events.listen(recent.note);

  api.get(
    '/admin/idempotency/recent',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'The records that changed last',
        querystring: recentQuery,
        response: {
          200: z.object({
            records: z.array(recordView),
            complete: z.boolean().describe('False: the store holds more than was read.'),
          }),
          ...refusals,
        },
      },
    },
    async ({ query }) => {
      const { limit, state, scope } = query;
      const { records, complete } = await recentRecords(engine, recent, {
        limit,
        ...(state === undefined ? {} : { state }),
        ...(scope === undefined ? {} : { scope }),
      });
      return { records: records.map(viewRecord), complete };
    },
  );

  api.get(
    '/admin/idempotency/:scope/:key',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'One record',
        params: operationPath,
        querystring: showQuery,
        response: { 200: recordView, ...refusals },
      },
    },
    async ({ params, query }) => {
      if (query.body === '1' && !config.settings.adminBodies) {
        throw new Problem(
          'forbidden',
          'bodies are not shown; ONCEWARD_ADMIN_BODIES=true allows it',
        );
      }
      return show(params, query.body === '1');
    },
  );

  api.delete(
    '/admin/idempotency/:scope/:key',
    {
      ...change,
      schema: {
        tags,
        summary: 'Forget a record, so that its key can be used again',
        params: operationPath,
        querystring: purgeQuery,
        response: { 204: z.null(), ...refusals },
      },
    },
    async (request, reply) => {
      const actor = actorOf(request, request.query.reason);
      assertDone(await engine.purge(request.params, actor));
      quota.delete(request.params);
      return reply.code(204).send(null);
    },
  );

  api.post(
    '/admin/idempotency/:scope/:key/extend',
    {
      ...change,
      schema: {
        tags,
        summary: 'Keep a settled answer longer',
        params: operationPath,
        body: extendBody,
        response: changed,
      },
    },
    async (request) => {
      const { ttl_ms, reason } = request.body;
      assertDone(await engine.extend(request.params, ttl_ms, actorOf(request, reason)));
      return show(request.params, false);
    },
  );

  api.post(
    '/admin/idempotency/:scope/:key/resolve',
    {
      ...change,
      schema: {
        tags,
        summary: 'Resolve an operation that is in doubt',
        params: operationPath,
        body: resolveBody,
        response: changed,
      },
    },
    async (request) => {
      const { as, reason, outcome, keep_ms } = request.body;
      const verdict = {
        ...actorOf(request, reason),
        as,
        keepMs: keep_ms,
        ...(outcome === undefined
          ? {}
          : {
              outcome: {
                contentType: outcome.content_type,
                bytes: Buffer.from(outcome.body_base64, 'base64'),
              },
            }),
      };
      assertDone(await engine.resolve(request.params, verdict));
      return as === 'void' ? null : show(request.params, false);
    },
  );

  resolveAllRoute(api, program);

  async function show(id: OperationId, withBody: boolean) {
    const view = await engine.read(id);
    if (view === null) throw new Problem('not-found', 'no record of this scope and key is kept');
    const shown = viewRecord(view);
    if (!withBody || shown.outcome === undefined) return shown;
    const kept = await keptOutcome(view.record);
    if (kept === null) return shown;
    return { ...shown, outcome: { ...shown.outcome, body_base64: toBase64(kept.bytes) } };
  }
}

function actorOf(request: FastifyRequest, reason: string): Actor {
  return { by: principalOf(request).apiKey, reason };
}

function assertDone(result: ChangeResult): void {
  if (result.done) return;
  switch (result.why) {
    case 'absent':
      throw new Problem('not-found', 'no record of this scope and key is kept');
    case 'not_in_doubt':
      throw new Problem('wrong-state', 'only a record that is in doubt can be resolved');
    case 'not_settled':
      throw new Problem('wrong-state', 'only a settled record can be kept longer');
    case 'changed':
      throw new Problem('changed', 'the record changed meanwhile; read it again');
  }
}
