import type { CommittedTransaction, Ledger, Refusal } from '@onceward/ledger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { nodeKeyLines, readKey } from 'onceward/http';
import { principalOf, requireRole } from '../../api/credential-check.ts';
import type { Api } from '../../api/zod-schemas.ts';
import type { CredentialStore } from '../../credentials/credential-store.ts';
import { callerOf } from '../caller.ts';
import * as documents from './documents.ts';
import { JSON_TYPE, sendRefusal } from './envelope.ts';
import { showCommitted, showIdempotency, showTransaction } from './views.ts';

const tags = ['ledger'];
const { refusals } = documents;

/** Transactions and what is known of their keys. */
export function transactionRoutes(api: Api, ledger: Ledger, credentials: CredentialStore): void {
  const write = { onRequest: requireRole(credentials, ['admin', 'client']) };
  const look = { onRequest: requireRole(credentials, ['admin', 'client', 'read_only']) };

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
      ...look,
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
      ...look,
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
      return found === undefined ? sendRefusal(reply, NO_KEY) : showIdempotency(found);
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
  ledger.transact(caller, key, request.body).then(
    (result) => {
      if (!result.ok) sendRefusal(reply, result);
      else reply.code(201).header('content-type', JSON_TYPE).send(committedText(result));
    },
    (error: unknown) => reply.send(error),
  );
}

function committedText(result: CommittedTransaction): string {
  return JSON.stringify(showCommitted(result));
}

const NO_TRANSACTION: Refusal = {
  ok: false,
  code: 'TRANSACTION_NOT_FOUND',
  message: 'There is no such transaction.',
};
const NO_KEY: Refusal = {
  ok: false,
  code: 'IDEMPOTENCY_KEY_NOT_FOUND',
  message: 'This key was not used with this credential, or its window is over.',
};

function keyOf({ raw }: FastifyRequest): string | undefined | Refusal {
  const reading = readKey(nodeKeyLines(raw), 'ledger');
  if (reading.kind === 'key') return reading.key;
  if (reading.kind === 'none') return undefined;
  const message = `The Idempotency-Key is not valid: ${reading.reason}.`;
  return { ok: false, code: 'IDEMPOTENCY_KEY_INVALID', message };
}
