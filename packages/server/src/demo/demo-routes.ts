import { randomBytes, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { idempotency } from 'onceward/fastify';
import { nodeKeyLines, readKey } from 'onceward/http';
import { z } from 'zod';
import { problem } from '../api/fields.ts';
import { localAccess } from '../api/local-access.ts';
import { Problem } from '../api/problem.ts';
import type { Api } from '../api/zod-schemas.ts';
import type { Program } from '../compose.ts';
import { policyOf } from '../config/policy.ts';
import { emitHttpEvent } from '../observability/http-events.ts';
import { orderThatCrashes } from './crashing-order.ts';
import { EffectCount } from './effect-count.ts';

const order = z.strictObject({
  item: z.string().min(1).max(200),
  amount: z.int().min(0).describe('In the smallest unit, such as cents.'),
});

const whole = (most: number) => z.coerce.number().int().min(0).max(most);
const knobs = z.strictObject({
  delay_ms: whole(60_000).default(0).describe('How long the order takes.'),
  status: whole(599).min(200).default(201).describe('The status to answer with.'),
  throw: z.enum(['0', '1']).default('0').describe('The handler throws.'),
  bytes: whole(16 * 1_048_576)
    .optional()
    .describe('Answers with so many random bytes.'),
  stream: whole(1_000).optional().describe('Answers with so many chunks, one by one.'),
  crash: z.enum(['0', '1']).default('0').describe('The process that takes the order dies.'),
});
type Knobs = z.output<typeof knobs>;

const CHUNK_PAUSE_MS = 10;
const BODILESS = new Set([204, 205, 304]);

const tags = ['demo'];

/** An orders API behind the middleware, for a newcomer's first minute. */
export async function demoRoutes(api: Api, program: Program): Promise<void> {
  const { engine, config } = program;
  const { settings } = config;
  const effects = await EffectCount.open(settings.data);
  api.addHook('onClose', () => effects.close());
  // There is no credential to ask for, so it is for this machine alone.
  const refuse = localAccess(settings);
  api.addHook('onRequest', (request, _reply, done) => done(refuse(request)));
  api.addHook('onRequest', keepQuota(program));
  await api.register(idempotency, {
    engine,
    scopeFrom: demoUser,
    effect: { kind: 'external', onLapse: settings.onLapse },
    profile: 'http',
    policy: { ...policyOf('http', settings), maxOutcomeBytes: settings.maxBodyBytes },
    mode: settings.mode,
    sampleRate: settings.shadowSampleRate,
    required: settings.requireKey,
    fingerprint: settings.fingerprint,
    streams: settings.keepStreams ? 'keep' : 'pass',
    notRetained: settings.notRetained,
    maxBodyBytes: settings.maxRequestBytes,
    log: emitHttpEvent(program),
  });

  api.post(
    '/demo/v1/orders',
    {
      schema: {
        tags,
        summary: 'Place an order. Send it twice with one Idempotency-Key: it is placed once.',
        headers: z.looseObject({
          'idempotency-key': z.string().optional().describe('Names the order.'),
          'idempotency-first-sent': z
            .string()
            .optional()
            .describe(
              'When it was first sent; after the window an absent key is 412 `key-expired`.',
            ),
          'x-demo-user': z.string().optional().describe('Who orders; demo by default.'),
        }),
        querystring: knobs,
        body: order,
        response: { '4xx': problem, '5xx': problem },
      },
    },
    async (request, reply) => {
      const { query, body } = request;
      if (query.delay_ms > 0) await sleep(query.delay_ms);
      if (query.crash === '1') return crash(request, effects);
      await effects.add();
      if (query.throw === '1') throw new Error('the demo handler was asked to throw');
      return answer(reply, query, { order_id: randomUUID(), ...body });
    },
  );

  api.get(
    '/demo/v1/effects',
    {
      schema: {
        tags,
        summary: 'How many orders were really placed',
        response: { 200: z.object({ orders: z.int() }) },
      },
    },
    async () => ({ orders: effects.value }),
  );
}

/** The door comes after this, and names its records by the caller and the route. */
function keepQuota({ quota }: Program) {
  return async (request: FastifyRequest): Promise<void> => {
    const reading = readKey(nodeKeyLines(request.raw), 'http');
    if (request.method !== 'POST' || reading.kind !== 'key') return;
    const id = { scope: `${demoUser(request)}|POST ${request.routeOptions.url}`, key: reading.key };
    const refusal = await quota.refusal(id, () => quota.fullFor(id));
    if (refusal !== null) throw refusal;
  };
}

async function crash(request: FastifyRequest, effects: EffectCount): Promise<never> {
  if (await orderThatCrashes()) await effects.add();
  request.idempotency?.doubt();
  throw new Problem(
    'outcome-unknown',
    'the process that took the order died before it could say how it went',
  );
}

function answer(reply: FastifyReply, query: Knobs, placed: object): FastifyReply {
  reply.code(query.status);
  if (BODILESS.has(query.status)) return reply.send();
  if (query.bytes !== undefined) {
    return reply.type('application/octet-stream').send(randomBytes(query.bytes));
  }
  if (query.stream !== undefined) {
    return reply.type('text/plain').send(Readable.from(chunks(query.stream)));
  }
  return reply.send(placed);
}

async function* chunks(count: number): AsyncGenerator<string> {
  for (let index = 1; index <= count; index += 1) {
    yield `chunk ${index}\n`;
    await sleep(CHUNK_PAUSE_MS);
  }
}

function demoUser(request: FastifyRequest): string {
  const named = request.headers['x-demo-user'];
  return typeof named === 'string' && named !== '' ? named : 'demo';
}
