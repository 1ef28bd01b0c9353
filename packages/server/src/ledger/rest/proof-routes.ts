import type { Ledger, Refusal, StoredTransaction } from '@onceward/ledger';
import { principalOf, requireRole } from '../../api/credential-check.ts';
import { Problem } from '../../api/problem.ts';
import type { Api } from '../../api/zod-schemas.ts';
import type { Principal } from '../../credentials/credential.ts';
import type { CredentialStore } from '../../credentials/credential-store.ts';
import * as documents from './documents.ts';
import { sendRefusal } from './envelope.ts';
import { showAccountProof, showTransactionProof } from './views.ts';

const tags = ['ledger'];
const { refusals } = documents;

/** What it takes to check an account or a transaction without trusting the server. */
export function proofRoutes(api: Api, ledger: Ledger, credentials: CredentialStore): void {
  const mayRead = { onRequest: requireRole(credentials, ['admin', 'client', 'read_only']) };

  api.get(
    '/account/:id/proof',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'An account with the proof that it is in the state of the newest block',
        params: documents.idPath,
        response: { 200: documents.accountProof, ...refusals },
      },
    },
    async (request, reply) => {
      const verified = ledger.reads.verifiedAccount(request.params.id);
      return verified === undefined ? sendRefusal(reply, NO_ACCOUNT) : showAccountProof(verified);
    },
  );

  api.get(
    '/transaction/:id/proof',
    {
      ...mayRead,
      schema: {
        tags,
        summary:
          'A transaction with the proof that it is in its block; a client gets those of its own',
        params: documents.idPath,
        response: { 200: documents.transactionProof, ...refusals },
      },
    },
    async (request, reply) => {
      const found = ledger.history.proof(request.params.id);
      if (found === undefined) return sendRefusal(reply, NO_TRANSACTION);
      assertMaySee(principalOf(request), JSON.parse(found.transaction) as StoredTransaction);
      return showTransactionProof(found);
    },
  );
}

/** What is proven is the whole text, and with it the key of its sender. */
function assertMaySee({ role, apiKey }: Principal, { credential }: StoredTransaction): void {
  if (role !== 'client' || credential === apiKey) return;
  const detail = 'A proof shows the idempotency key of the transaction, which is not one of yours.';
  throw new Problem('forbidden', detail);
}

export const NO_ACCOUNT: Refusal = {
  ok: false,
  code: 'ACCOUNT_NOT_FOUND',
  message: 'There is no such account.',
};
export const NO_TRANSACTION: Refusal = {
  ok: false,
  code: 'TRANSACTION_NOT_FOUND',
  message: 'There is no such transaction.',
};
