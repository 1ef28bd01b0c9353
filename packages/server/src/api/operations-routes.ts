import type { FastifyRequest } from 'fastify';
import type { FencedChange, OperationId, Outcome, Policy, ReserveResult } from 'onceward';
import { z } from 'zod';
import type { Program } from '../compose.ts';
import { policyOf } from '../config/policy.ts';
import { principalOf, requireRole } from './credential-check.ts';
import {
  durationMs,
  fence,
  fingerprint,
  key,
  type OutcomeField,
  operationPath,
  outcome,
  problem,
  recordState,
  scope,
} from './fields.ts';
import { keptOutcome, toBase64 } from './kept-outcome.ts';
import { Problem } from './problem.ts';
import type { Api } from './zod-schemas.ts';

const LONGEST_WAIT_MS = 60_000;

const reserveBody = z.strictObject({
  scope,
  key,
  fingerprint,
  lease_ms: durationMs(10).optional().describe('How long the claim lives without a renewal.'),
  wait_ms: z
    .int()
    .min(0)
    .max(LONGEST_WAIT_MS)
    .optional()
    .describe('How long to wait for an attempt that is running.'),
  on_lapse: z
    .enum(['in_doubt', 'take_over'])
    .default('in_doubt')
    .describe('What the claim becomes when its bearer is lost: asked about, or run again.'),
  first_sent_at: z
    .int()
    .min(0)
    .optional()
    .describe(
      'When the operation was first asked for, in milliseconds since 1970. A key that is absent, and older than answers are kept, is `expired` and not claimed.',
    ),
});

const reserveAnswer = z.object({
  decision: z.enum(['claimed', 'replay', 'in_progress', 'mismatch', 'in_doubt', 'expired']),
  fence: z.int().nullable(),
  attempt: z.int().nullable(),
  lease_until: z.int().nullable(),
  state: z.enum(['committed', 'rejected']).nullable(),
  outcome: outcome.nullable(),
});

const held = { scope, key, fence };
const settleBody = z.strictObject({
  ...held,
  outcome: outcome.prefault({}),
  keep_ms: durationMs(1).optional().describe('How long the answer is kept.'),
});
const renewBody = z.strictObject({ ...held, lease_ms: durationMs(10).optional() });
const releaseBody = z.strictObject(held);

const operationView = z.object({
  scope: z.string(),
  key: z.string(),
  state: recordState,
  attempt: z.int().nullable(),
  fence: z.int().nullable(),
  lease_until: z.int().nullable(),
  outcome: outcome.nullable(),
});

const tags = ['operations'];
const refusals = { '4xx': problem, '5xx': problem };

/** The engine for services in any language: reserve, do it, then commit or reject under the fence. */
export function operationsRoutes(api: Api, program: Program): void {
  const { engine, config, credentials, quota } = program;
  const base: Policy = {
    ...policyOf('http', config.settings),
    maxOutcomeBytes: config.settings.maxBodyBytes,
  };
  const may = { onRequest: requireRole(credentials, ['admin', 'client']) };

  api.post(
    '/v1/operations/reserve',
    {
      ...may,
      schema: {
        tags,
        summary: 'Claim an operation, or get its outcome',
        body: reserveBody,
        response: { 200: reserveAnswer, ...refusals },
      },
    },
    async (request) => {
      const { body } = request;
      const { lease_ms = base.leaseMs, wait_ms = base.waitMs, on_lapse } = body;
      const id = idOf(request, body);
      const full = () => quota.fullFor(id);
      const refusal = full() === null ? null : await quota.refusal(id, full);
      if (refusal !== null) throw refusal;
      const reserve = () =>
        engine.reserve({
          id,
          fingerprint: body.fingerprint,
          effect: { kind: 'external', onLapse: on_lapse },
          policy: { ...base, leaseMs: lease_ms, waitMs: wait_ms },
          ...(body.first_sent_at === undefined ? {} : { firstSentAt: body.first_sent_at }),
        });
      const isOpen = ({ decision }: ReserveResult) =>
        decision !== 'replay' && decision !== 'expired';
      return answerReserve(await quota.during(id, reserve, isOpen));
    },
  );

  for (const as of ['committed', 'rejected'] as const) {
    const verb = as === 'committed' ? 'commit' : 'reject';
    api.post(
      `/v1/operations/${verb}`,
      {
        ...may,
        schema: {
          tags,
          summary: `Settle a claimed operation as ${as}`,
          body: settleBody,
          response: { 200: z.object({ state: z.literal(as) }), ...refusals },
        },
      },
      async (request) => {
        const { body } = request;
        const keepMs =
          body.keep_ms ?? (as === 'committed' ? base.keepCommittedMs : base.keepRejectedMs);
        const policy = { ...base, keepCommittedMs: keepMs, keepRejectedMs: keepMs };
        await write(request, body, policy, { as, outcome: toOutcome(body.outcome) });
        return { state: as };
      },
    );
  }

  api.post(
    '/v1/operations/renew',
    {
      ...may,
      schema: {
        tags,
        summary: 'Keep a claim alive',
        body: renewBody,
        response: { 200: z.object({ lease_until: z.int() }), ...refusals },
      },
    },
    async (request) => {
      const { body } = request;
      const policy = { ...base, leaseMs: body.lease_ms ?? base.leaseMs };
      const leaseUntil = await write(request, body, policy, { as: 'renewed' });
      return { lease_until: leaseUntil ?? 0 };
    },
  );

  api.post(
    '/v1/operations/release',
    {
      ...may,
      schema: {
        tags,
        summary: 'Give a claim back: nothing happened',
        body: releaseBody,
        response: { 200: z.object({ state: z.literal('released') }), ...refusals },
      },
    },
    async (request) => {
      await write(request, request.body, base, { as: 'released' });
      return { state: 'released' as const };
    },
  );

  api.get(
    '/v1/operations/:scope/:key',
    {
      onRequest: requireRole(credentials, ['admin', 'read_only', 'client']),
      schema: {
        tags,
        summary: 'Read an operation',
        params: operationPath,
        response: { 200: operationView, ...refusals },
      },
    },
    async (request) => {
      const view = await engine.read(idOf(request, request.params));
      const record = view?.record ?? null;
      const isOver = record !== null && 'keepUntil' in record && record.keepUntil <= Date.now();
      const isSettled = view?.state === 'committed' || view?.state === 'rejected';
      if (view === null || (isSettled && isOver)) {
        throw new Problem('not-found', 'no operation of this scope and key is kept');
      }
      const kept = await keptOutcome(record);
      return {
        ...request.params,
        state: view.state,
        attempt: record?.attempt ?? null,
        fence: record === null ? null : record.fence || view.revision,
        lease_until: record?.state === 'pending' ? record.leaseUntil : null,
        outcome: kept === null ? null : fromOutcome(kept),
      };
    },
  );

  async function write(
    request: FastifyRequest,
    named: { scope: string; key: string; fence: number },
    policy: Policy,
    change: FencedChange,
  ): Promise<number | undefined> {
    const result = await engine.writeFenced(idOf(request, named), named.fence, policy, change);
    if (result.done) return result.leaseUntil;
    throw new Problem(
      'fence-lost',
      `fence ${named.fence} may not write any more: another attempt, a verdict, or nothing is there; reserve again`,
    );
  }
}

/** A tenant's scopes live under its name, so that no tenant can name another's. */
function idOf(request: FastifyRequest, named: { scope: string; key: string }): OperationId {
  const { tenant } = principalOf(request);
  return { scope: tenant === null ? named.scope : `${tenant}/${named.scope}`, key: named.key };
}

const NOTHING = { fence: null, attempt: null, lease_until: null, state: null, outcome: null };

function answerReserve(result: ReserveResult): z.input<typeof reserveAnswer> {
  switch (result.decision) {
    case 'claimed': {
      const { decision, fence, attempt, leaseUntil } = result;
      return { ...NOTHING, decision, fence, attempt, lease_until: leaseUntil };
    }
    case 'replay': {
      const { decision, state, attempt } = result;
      return { ...NOTHING, decision, state, attempt, outcome: fromOutcome(result.outcome) };
    }
    default:
      return { ...NOTHING, decision: result.decision };
  }
}

function toOutcome(field: OutcomeField): Outcome {
  return { contentType: field.content_type, bytes: Buffer.from(field.body_base64, 'base64') };
}

function fromOutcome({ contentType, bytes }: Outcome): OutcomeField {
  return { content_type: contentType, body_base64: toBase64(bytes) };
}
