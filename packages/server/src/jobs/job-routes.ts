import type { FastifyReply } from 'fastify';
import {
  FIRST_SENT_FORM,
  httpDate,
  type ProblemName,
  problemAnswer,
  REFUSALS as WORDS,
} from 'onceward/http';
import {
  type Answer,
  type CancelResult,
  type Gate,
  type GlobalView,
  JOB_STATES,
  type JobView,
  type RefusedSubmission,
  type RefusedWhy,
  submissionOf,
} from 'onceward/jobs';
import { z } from 'zod';
import { problem } from '../api/fields.ts';
import type { LocalAccess } from '../api/local-access.ts';
import { Problem } from '../api/problem.ts';
import { sendProblem } from '../api/refusals.ts';
import type { Api } from '../api/zod-schemas.ts';
import type { CredentialStore } from '../credentials/credential-store.ts';
import { firstSentOf, submissionKey } from './submission-key.ts';
import { requireTenant, tenantOf } from './tenant.ts';

const submissionBody = z.object({
  type: z
    .string()
    .min(1)
    .max(128)
    .describe('What kind of job; `echo`, `sleep` and `fail` are there to try.'),
  payload: z.unknown().optional().describe('What the job works with.'),
  idempotency_key: z.string().optional().describe('Instead of the header.'),
});

const ack = z.object({
  job_id: z.string().nullable(),
  status: z.enum(['committed', 'rejected']),
  idempotency_key: z.string(),
  was_duplicate: z.boolean(),
  original_job_id: z.string().nullable(),
});

const jobView = z.object({
  job_id: z.string(),
  type: z.string(),
  status: z.literal('committed'),
  state: z.enum(JOB_STATES as [string, ...string[]]),
  attempts: z.int(),
  result: z.unknown(),
  error: z.string().nullable(),
  submitted_at: z.int(),
  queue: z.string().nullable(),
});

const listQuery = z.strictObject({
  // Every job that can be listed is one that was committed.
  status: z.enum([...JOB_STATES, 'committed', '']).optional(),
  state: z.enum([...JOB_STATES, '']).optional(),
  limit: z.coerce.number().int().min(1).max(1_000).default(50),
});
const jobPath = z.strictObject({ id: z.string().min(1).max(128) });

const tags = ['jobs'];
const refusals = { '4xx': problem, '5xx': problem };

export interface JobRoutesOptions {
  readonly gate: Gate;
  readonly globalView: GlobalView | null;
  readonly credentials: CredentialStore;
  /** Who needs no credential. */
  readonly local: LocalAccess;
}

/** Jobs for clients: a submission is taken in once, whichever gate receives it and however often. */
export function jobRoutes(api: Api, options: JobRoutesOptions): void {
  const { gate, globalView, credentials, local } = options;
  const mayChange = { onRequest: requireTenant(credentials, local, ['admin', 'client']) };
  const mayLook = {
    onRequest: requireTenant(credentials, local, ['admin', 'client', 'read_only']),
  };

  api.post(
    '/jobs',
    {
      ...mayChange,
      schema: {
        tags,
        summary: 'Submit a job. Send it again with the same key: it is the same job.',
        description:
          'The key, `{client_id}:{sequence}:{nonce}`, comes in `Idempotency-Key` or in the body. ' +
          '`idempotency-kept-until` in the answer says until when it is known. Who sends it again may say in ' +
          '`Idempotency-First-Sent` when that was first done: after the window that is refused with 412 `key-expired`. ' +
          'A job that was rejected is 422 with `status: "rejected"`, one that was cancelled since is 409 with ' +
          '`status: "cancelled"`; `happened` says whether it may have run.',
        body: submissionBody,
        response: { 202: ack, ...refusals },
      },
    },
    async (request, reply) => {
      const { type, payload, idempotency_key } = request.body;
      const reading = submissionKey(request, idempotency_key);
      if (reading.kind !== 'key') return refuseKey(reply, reading);
      const { key } = reading;
      const firstSentAt = firstSentOf(request);
      if (firstSentAt === null) return refuseFirstSent(reply, key);
      const tenant = tenantOf(request);
      const submission = submissionOf({ tenant, key, type, payload, firstSentAt });
      return acknowledge(reply, key, await gate.submit(submission));
    },
  );

  api.get(
    '/jobs/:id',
    {
      ...mayLook,
      schema: {
        tags,
        summary: 'What has become of a job',
        params: jobPath,
        response: { 200: jobView, ...refusals },
      },
    },
    async (request) => {
      const job = await gate.find(tenantOf(request), request.params.id);
      if (job === null) throw notFound();
      return show(job);
    },
  );

  api.get(
    '/jobs',
    {
      ...mayLook,
      schema: {
        tags,
        summary: 'Jobs, newest first',
        querystring: listQuery,
        response: {
          200: z.object({ jobs: z.array(jobView), complete: z.boolean() }),
          ...refusals,
        },
      },
    },
    async (request) => {
      const { status, state = status, limit } = request.query;
      const isAny = state === undefined || state === '' || state === 'committed';
      const wanted = isAny ? {} : { state };
      const found = await gate.list({ tenant: tenantOf(request), limit, ...wanted });
      return { jobs: found.jobs.map(show), complete: found.complete };
    },
  );

  api.post(
    '/jobs/:id/cancel',
    {
      ...mayChange,
      schema: {
        tags,
        summary: 'Keep a job from running, or abort it',
        params: jobPath,
        response: {
          200: z.object({ job_id: z.string(), outcome: z.enum(['cancelled', 'stopping']) }),
          ...refusals,
        },
      },
    },
    async (request) => {
      const { id } = request.params;
      return { job_id: id, outcome: cancelled(await gate.cancel(tenantOf(request), id)) };
    },
  );

  if (globalView !== null) globalRoute(api, globalView, mayLook);
}

function globalRoute(
  api: Api,
  globalView: GlobalView,
  mayLook: { onRequest: ReturnType<typeof requireTenant> },
): void {
  api.get(
    '/jobs/global',
    {
      ...mayLook,
      schema: {
        tags,
        summary: 'Which jobs exist in which data centre, as each last answered',
        response: {
          200: z.object({
            data_centres: z.array(
              z.object({
                name: z.string(),
                as_of: z.int().nullable(),
                current: z.boolean(),
                jobs: z.array(jobView),
              }),
            ),
          }),
        },
      },
    },
    async (request) => {
      const tenant = tenantOf(request);
      return {
        data_centres: globalView.view.map(({ dataCentre, asOf, isCurrent, jobs }) => ({
          name: dataCentre,
          as_of: asOf,
          current: isCurrent,
          jobs: jobs.filter((job) => job.tenant === tenant).map(show),
        })),
      };
    },
  );
}

function acknowledge(reply: FastifyReply, key: string, answer: Answer): FastifyReply {
  if (answer.status === 'refused') {
    if (answer.why === 'over_quota') return sendOverQuota(reply, key, answer);
    const [name, detail] = REFUSALS[answer.why];
    const { retryAfterMs } = answer;
    return sendProblemAnswer(reply, name, {
      detail: answer.detail ?? detail,
      key,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  }
  const { status, wasDuplicate } = answer;
  reply.header('idempotency-replayed', wasDuplicate ? 'true' : 'false');
  reply.header('cache-control', 'no-store');
  reply.header('idempotency-kept-until', httpDate(Date.now() + answer.keepMs));
  const about = { status, idempotency_key: key, was_duplicate: wasDuplicate };
  if (answer.status === 'rejected') {
    const { reason } = answer;
    const hints = hintsOf('operation-rejected');
    return reply
      .code(422)
      .send({ job_id: null, ...about, original_job_id: null, reason, ...hints });
  }
  const { jobId } = answer;
  const original = wasDuplicate ? jobId : null;
  const job = { job_id: jobId, ...about, original_job_id: original };
  if (answer.status === 'committed') return reply.code(202).send(job);
  const never = answer.happened === 'no';
  return reply.code(409).send({
    ...job,
    reason: never
      ? 'the job was cancelled before it began; a new key makes a new job'
      : 'the job was cancelled after it had begun; check what it did before it is sent under a new key',
    ...hintsOf(never ? 'operation-rejected' : 'operation-failed'),
  });
}

function hintsOf(name: ProblemName) {
  const { retry, happened } = WORDS[name];
  return { retry, happened };
}

/** Only what is not known yet is refused for want of room, so nothing has happened. */
function sendOverQuota(reply: FastifyReply, key: string, answer: RefusedSubmission): FastifyReply {
  const { detail = REFUSALS.over_quota[1], retryAfterMs = 1_000 } = answer;
  const retryAfterSeconds = Math.ceil(retryAfterMs / 1_000);
  reply.header('idempotency-replayed', 'false');
  return sendProblem(reply, new Problem('over-quota', detail, { key, retryAfterSeconds }));
}

const REFUSALS = {
  in_progress: ['in-progress', 'the submission is still pending; retry with the same key'],
  mismatch: ['payload-mismatch', 'this key was used for another job; use a new key'],
  in_doubt: [
    'outcome-unknown',
    'an earlier attempt was lost half-way and may have created the job; it must be resolved first',
  ],
  expired: [
    'key-expired',
    'the key was first sent longer ago than it is kept here, so the job may exist; look for it before it is sent under a new key',
  ],
  over_quota: ['over-quota', 'too many submissions are pending here; retry with the same key'],
  unavailable: [
    'manager-unavailable',
    'the managers of this key did not answer; retry with the same key to learn the outcome',
  ],
} as const satisfies Record<RefusedWhy, readonly [ProblemName, string]>;

function refuseFirstSent(reply: FastifyReply, key: string): FastifyReply {
  const detail = FIRST_SENT_FORM;
  return sendProblemAnswer(reply, 'first-sent-invalid', { detail, key });
}

function refuseKey(
  reply: FastifyReply,
  reading: Exclude<ReturnType<typeof submissionKey>, { kind: 'key' }>,
): FastifyReply {
  switch (reading.kind) {
    case 'none': {
      const detail =
        'send {client_id}:{sequence}:{nonce} in Idempotency-Key, the same with every retry';
      return sendProblemAnswer(reply, 'key-missing', { detail });
    }
    case 'invalid':
      return sendProblemAnswer(reply, 'key-invalid', { detail: reading.reason });
    case 'conflict':
      return sendProblemAnswer(reply, 'key-conflict', { detail: reading.reason });
  }
}

function sendProblemAnswer(
  reply: FastifyReply,
  name: ProblemName,
  details: Parameters<typeof problemAnswer>[2],
): FastifyReply {
  const { status, headers, body } = problemAnswer(name, 'jobs', details);
  for (let i = 0; i + 1 < headers.length; i += 2) reply.header(headers[i]!, headers[i + 1]!);
  return reply.code(status).send(body);
}

function show(job: JobView): z.input<typeof jobView> {
  return {
    job_id: job.jobId,
    type: job.type,
    status: 'committed',
    state: job.state,
    attempts: job.attempts,
    result: job.result,
    error: job.error,
    submitted_at: job.submittedAt,
    queue: job.queue,
  };
}

function cancelled(result: CancelResult): 'cancelled' | 'stopping' {
  switch (result) {
    case 'cancelled':
    case 'stopping':
      return result;
    case 'unknown':
      throw notFound();
    case 'already_over':
      throw new Problem('wrong-state', 'the job is over, or in doubt; there is nothing to cancel');
    case 'running_elsewhere':
      throw new Problem(
        'wrong-state',
        'the job is being run elsewhere and cannot be stopped from here',
      );
  }
}

function notFound(): Problem {
  return new Problem('not-found', 'no job of this id is kept');
}
