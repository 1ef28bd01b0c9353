import { z } from 'zod';
import type { Program } from '../../compose.ts';
import { ACTOR, ROLES } from '../../credentials/credential.ts';
import { principalOf, requireRole } from '../credential-check.ts';
import { problem } from '../fields.ts';
import { Problem } from '../problem.ts';
import { refuseInBothForms } from '../refusals.ts';
import type { Api } from '../zod-schemas.ts';

const refusals = { '4xx': problem, '5xx': problem };
const inBothForms = problem.extend({
  error: z.object({ code: z.string(), message: z.string() }),
});
const credentialRefusals = { '4xx': inBothForms, '5xx': inBothForms };
const auditQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(10_000).default(100),
});
const auditAnswer = z.object({
  lines: z.array(z.unknown()),
  damaged: z.int().describe('Lines among those read that are damaged.'),
});
const tenant = z.string().regex(/^[\w.-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ . -');
const createBody = z.strictObject({
  role: z.enum(ROLES).default('client'),
  tenant: tenant
    .optional()
    .describe('Whose operations a client may touch. Unset: a tenant of its own.'),
  actor: z
    .string()
    .regex(ACTOR, 'must be user:{id} or system:{name}, printable and without spaces')
    .optional()
    .describe('Whom it stands for in the ledger. Unset: itself, as client:{api_key}.'),
});
const shownCredential = z.object({
  api_key: z.string(),
  role: z.enum(ROLES),
  tenant: z.string().nullable(),
  actor: z.string().optional(),
  created_at: z.string(),
});

/** Who may do what, and who did what. */
export function auditRoutes(api: Api, program: Program): void {
  const { audit, credentials } = program;
  const mayRead = { onRequest: requireRole(credentials, ['admin', 'read_only']) };
  const manage = {
    onRequest: requireRole(credentials, ['admin']),
    errorHandler: refuseInBothForms,
  };

  api.get(
    '/admin/audit',
    {
      ...mayRead,
      schema: {
        tags: ['admin'],
        summary: 'What was changed by hand, by whom and why; the newest first',
        querystring: auditQuery,
        response: { 200: auditAnswer, ...refusals },
      },
    },
    ({ query }) => audit.latest(query.limit),
  );

  api.get(
    '/credentials',
    {
      ...manage,
      schema: {
        tags: ['credentials'],
        summary: 'The credentials, without their secrets',
        response: {
          200: z.object({ credentials: z.array(shownCredential) }),
          ...credentialRefusals,
        },
      },
    },
    async () => ({ credentials: credentials.list() }),
  );

  api.post(
    '/credentials',
    {
      ...manage,
      schema: {
        tags: ['credentials'],
        summary: 'Make a credential. Its secret is shown this once.',
        body: createBody,
        response: {
          201: z.object({ api_key: z.string(), api_secret: z.string() }),
          ...credentialRefusals,
        },
      },
    },
    async (request, reply) => {
      const { role, tenant, actor } = request.body;
      if (tenant !== undefined && role !== 'client') {
        throw new Problem('invalid-request', 'tenant: only a client belongs to a tenant');
      }
      const limit = credentials.limitReached;
      if (limit !== null) {
        const detail = `${limit} credentials are kept, and no more may be; revoke some first`;
        throw new Problem('limit-reached', detail);
      }
      const by = principalOf(request).apiKey;
      const made = await credentials.create(role, tenant ?? null, actor);
      const api_key = made.apiKey;
      const named = actor === undefined ? {} : { actor };
      await audit.append({
        at: Date.now(),
        action: 'create_credential',
        api_key,
        role,
        ...named,
        by,
      });
      return reply.code(201).send({ api_key, api_secret: made.apiSecret });
    },
  );

  api.delete(
    '/credentials/:api_key',
    {
      ...manage,
      schema: {
        tags: ['credentials'],
        summary: 'Revoke a credential at once',
        params: z.strictObject({ api_key: z.string().min(1).max(256) }),
        response: { 204: z.null(), ...credentialRefusals },
      },
    },
    async (request, reply) => {
      const { api_key } = request.params;
      const known = credentials.list().find((credential) => credential.api_key === api_key);
      if (known === undefined) throw new Problem('not-found', 'no such credential');
      const by = principalOf(request).apiKey;
      const { role } = known;
      await audit.append({ at: Date.now(), action: 'revoke_credential', api_key, role, by });
      await credentials.revoke(api_key);
      return reply.code(204).send(null);
    },
  );
}
