import type { CommittedTransaction, Ledger, Refusal } from '@onceward/ledger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { httpDate } from 'onceward/http';
import { principalOf, requireRole } from '../../api/credential-check.ts';
import type { Api } from '../../api/zod-schemas.ts';
import type { CredentialStore } from '../../credentials/credential-store.ts';
import { callerOf } from '../caller.ts';
import * as documents from './documents.ts';
import { sendRefusal, sendText } from './envelope.ts';
import { firstSentOf, keyOf } from './key-of.ts';
import { NO_TRANSACTION } from './proof-routes.ts';
import { idempotencyText, showCommitted, showTransaction } from './views.ts';

const tags = ['ledger'];
const { refusals } = documents;

/** Transactions and what is known of their keys. */
export function transactionRoutes(api: Api, ledger: Ledger, credentials: CredentialStore): void {
  const write = { onRequest: requireRole(credentials, ['admin', 'client']) };
  const mayRead = { onRequest: requireRole(credentials, ['admin', 'client', 'read_only']) };

  api.post(
    '/transaction',
    {
      ...write,
      schema: {
        tags,
        summary: 'Move amounts between accounts, once for each key. A duplicate is refused.',
        headers: documents.transactionHeaders,
        body: documents.transactionBody,
        response: { 201: documents.committed, ...refusals },
      },
    },
    (request, reply) => transact(ledger, request, reply),
  );

  api.get(
    '/transaction/:id',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'A transaction',
        params: documents.idPath,
        response: { 200: documents.shownTransaction, ...refusals },
      },
    },
    async (request, reply) => {
      const found = ledger.history.transaction(request.params.id);
      if (found?.transaction.kind === 'journal') return showTransaction(found);
      return sendRefusal(reply, NO_TRANSACTION);
    },
  );

  api.get(
    '/idempotency/:key',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'What a key of this credential was used for, within its window',
        params: documents.keyPath,
        response: { 200: documents.shownIdempotency, ...refusals },
      },
    },
    async (request, reply) => {
      const { credential } = callerOf(principalOf(request));
      const found = ledger.history.idempotency(credential, request.params.key);
      if (found === undefined) return sendRefusal(reply, NO_KEY);
      return sendText(reply, 200, idempotencyText(found));
    },
  );
}

/** Most of what a ledger does comes through here, so it makes do without promises and serializers of its own. */
function transact(ledger: Ledger, request: FastifyRequest, reply: FastifyReply): void {
  const key = keyOf(request);
  if (typeof key === 'object') {
    sendRefusal(reply, key);
    return;
  }
  const caller = callerOf(principalOf(request));
  const firstSentAt = key === undefined ? undefined : firstSentOf(request);
  ledger.transact(caller, key, request.body, firstSentAt).then(
    (result) => {
      if (!result.ok) {
        sendRefusal(reply, result);
        return;
      }
      const keptUntil = httpDate(result.createdAt + ledger.settings.idempotencyTtlMs);
      sendText(reply.header('idempotency-kept-until', keptUntil), 201, committedText(result));
    },
    (error: unknown) => reply.send(error),
  );
}

function committedText(result: CommittedTransaction): string {
  return JSON.stringify(showCommitted(result));
}

const NO_KEY: Refusal = {
  ok: false,
  code: 'IDEMPOTENCY_KEY_NOT_FOUND',
  message: 'This key was not used with this credential, or its window is over.',
};
