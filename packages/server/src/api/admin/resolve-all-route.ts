import { z } from 'zod';
import type { Program } from '../../compose.ts';
import { principalOf, requireRole } from '../credential-check.ts';
import { durationMs, problem, reason, scope } from '../fields.ts';
import type { Api } from '../zod-schemas.ts';
import { countDoubts, resolveDoubts } from './bulk-resolve.ts';

const DAY_MS = 86_400_000;
const MOST = 10_000;

const body = z
  .strictObject({
    scope: scope.optional().describe('Only of this scope.'),
    scope_prefix: scope.optional().describe('Only of scopes that begin so; `shop/` for a tenant.'),
    older_than_ms: durationMs(0).default(0).describe('Only those in doubt for at least so long.'),
    as: z
      .enum(['committed', 'rejected', 'void'])
      .describe('`void`: none of them happened, and their keys may be used again.'),
    reason,
    keep_ms: durationMs(1).default(DAY_MS),
    limit: z.int().min(1).max(MOST).default(1_000).describe('Resolves no more than these.'),
    dry_run: z.boolean().default(false).describe('Counts all that match, and changes nothing.'),
  })
  .refine((asked) => asked.scope !== undefined || asked.scope_prefix !== undefined, {
    message: 'name a scope or a scope_prefix, so that not everything is resolved by mistake',
  });

const answer = z.object({
  matched: z.int(),
  resolved: z.int(),
  skipped: z.int().describe('Changed in the meantime, or not readable and thus only to be voided.'),
  complete: z.boolean().describe('False: more match than the limit; ask again.'),
});

/** One verdict for many operations. Each has its own line in the audit trail. */
export function resolveAllRoute(api: Api, { engine, credentials }: Program): void {
  api.post(
    '/admin/idempotency/resolve',
    {
      onRequest: requireRole(credentials, ['admin']),
      schema: {
        tags: ['admin'],
        summary: 'Resolve many operations that are in doubt',
        body,
        response: { 200: answer, '4xx': problem, '5xx': problem },
      },
    },
    async (request) => {
      const { scope, scope_prefix, older_than_ms, as, reason, keep_ms, limit, dry_run } =
        request.body;
      const filter = {
        olderThanMs: older_than_ms,
        ...(scope === undefined ? {} : { scope }),
        ...(scope_prefix === undefined ? {} : { scopePrefix: scope_prefix }),
      };
      if (dry_run) return countDoubts(engine, filter);
      const verdict = { by: principalOf(request).apiKey, reason, as, keepMs: keep_ms };
      return resolveDoubts(engine, filter, verdict, limit);
    },
  );
}
