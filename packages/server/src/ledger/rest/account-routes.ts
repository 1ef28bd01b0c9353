import type { Ledger, Refusal } from '@onceward/ledger';
import { httpDate } from 'onceward/http';
import { principalOf, requireRole } from '../../api/credential-check.ts';
import type { Api } from '../../api/zod-schemas.ts';
import type { CredentialStore } from '../../credentials/credential-store.ts';
import { callerOf } from '../caller.ts';
import * as documents from './documents.ts';
import { sendRefusal } from './envelope.ts';
import { firstSentOf, keyOf } from './key-of.ts';
import { NO_ACCOUNT } from './proof-routes.ts';
import { showAccountEntry } from './views.ts';

const tags = ['ledger'];
const { refusals } = documents;
const PAGE = 50;
const LONGEST_PAGE = 500;
const DIGITS = /^\d*$/;

export function accountRoutes(api: Api, ledger: Ledger, credentials: CredentialStore): void {
  const write = { onRequest: requireRole(credentials, ['admin', 'client']) };
  const mayRead = { onRequest: requireRole(credentials, ['admin', 'client', 'read_only']) };

  api.post(
    '/account',
    {
      ...write,
      schema: {
        tags,
        summary: 'Open an account for one asset; with a key, once for each key',
        headers: documents.accountHeaders,
        body: documents.accountBody,
        response: { 201: documents.accountId, ...refusals },
      },
    },
    async (request, reply) => {
      const key = keyOf(request);
      if (typeof key === 'object') return sendRefusal(reply, key);
      const caller = callerOf(principalOf(request));
      const firstSentAt = key === undefined ? undefined : firstSentOf(request);
      const result = await ledger.createAccount(caller, request.body, key, firstSentAt);
      if (!result.ok) return sendRefusal(reply, result);
      if (key !== undefined) {
        const keptUntil = httpDate(result.createdAt + ledger.settings.clientTtlMs);
        reply.header('idempotency-kept-until', keptUntil);
      }
      return reply.code(201).send({ id: result.id });
    },
  );

  api.get(
    '/account/:id',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'An account and its balance',
        params: documents.idPath,
        response: { 200: documents.shownAccount, ...refusals },
      },
    },
    async (request, reply) => {
      const account = ledger.reads.account(request.params.id);
      if (account === undefined) return sendRefusal(reply, NO_ACCOUNT);
      return { ...account, balance: account.balance.toString() };
    },
  );

  api.get(
    '/account/:id/ledger',
    {
      ...mayRead,
      schema: {
        tags,
        summary: 'What happened to an account, newest first',
        params: documents.idPath,
        querystring: documents.pageQuery,
        response: { 200: documents.accountPage, ...refusals },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const { cursor = '', limit = '' } = request.query;
      const length = limit === '' ? PAGE : Number(limit);
      if (!(DIGITS.test(limit) && length >= 1 && length <= LONGEST_PAGE)) {
        return sendRefusal(reply, BAD_LIMIT);
      }
      const page = ledger.history.accountEntries(id, cursor === '' ? null : cursor, length);
      if (!page.ok) return sendRefusal(reply, page);
      const { entries, cursor: next_cursor, isTrimmed: trimmed } = page.value;
      return { account_id: id, entries: entries.map(showAccountEntry), next_cursor, trimmed };
    },
  );
}

const BAD_LIMIT: Refusal = {
  ok: false,
  code: 'INVALID_FIELD',
  message: `limit must be from 1 to ${LONGEST_PAGE}.`,
};
