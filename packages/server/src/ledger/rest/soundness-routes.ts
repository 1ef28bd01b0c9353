import type { IntegrityReport, Ledger } from '@onceward/ledger';
import { principalOf, requireRole } from '../../api/credential-check.ts';
import type { Api } from '../../api/zod-schemas.ts';
import type { CredentialStore } from '../../credentials/credential-store.ts';
import { callerOf } from '../caller.ts';
import * as documents from './documents.ts';
import { showIntegrity, showRecovered } from './views.ts';

const tags = ['ledger'];
const { refusals } = documents;

/** What the last restart kept, and whether all that is kept is sound. */
export function soundnessRoutes(api: Api, ledger: Ledger, credentials: CredentialStore): void {
  const mayRead = { onRequest: requireRole(credentials, ['admin', 'client', 'read_only']) };
  let checking: Promise<IntegrityReport> | null = null;

  api.get(
    '/recovery',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'What the last batches before the restart committed: absent is safe to retry',
        response: { 200: documents.recovered, ...refusals },
      },
    },
    async (request) => {
      const { credential } = callerOf(principalOf(request));
      const records = ledger.recovery(credential).map(showRecovered);
      return { records, count: records.length };
    },
  );

  api.get(
    '/integrity',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'Whether the sums are zero for each asset and the chain is unbroken',
        response: { 200: documents.integrity, ...refusals },
      },
    },
    async () => {
      // It reads everything there is, so concurrent requests share one run.
      checking ??= ledger.integrity().finally(() => {
        checking = null;
      });
      return showIntegrity(await checking);
    },
  );
}
