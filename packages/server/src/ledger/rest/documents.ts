import { z } from 'zod';

/*
 * What the API's document says of these routes. The ledger itself checks what comes in, because what it says of a
 * mistake carries its code; so these schemas describe and do not decide.
 */

const amount = z
  .union([z.int(), z.string().regex(/^[1-9][0-9]*$/)])
  .describe('A positive whole number below 2^250, as a number of any length or as text.');
const side = z.object({
  account_id: z.string(),
  balance_policy: z.enum(['ALWAYS_POSITIVE', 'ALWAYS_NEGATIVE', 'NONE']).optional(),
});
const entry = z.object({
  sequence: z.int().describe('From 1 without gaps.'),
  type: z.string(),
  asset: z.string(),
  amount,
  debit: side.describe('Its balance falls.'),
  credit: side.describe('Its balance rises.'),
});
const storedEntry = entry.extend({ id: z.string(), amount: z.string() });

export const transactionBody = z.object({ journal_entries: z.array(entry) });
export const committed = z.object({
  transaction_id: z.string(),
  journal_entries: z.array(storedEntry),
  created_at: z.string(),
  block_height: z.int(),
});
const firstSent = z
  .string()
  .optional()
  .describe(
    'When the request was first sent, as an HTTP date. If its key may be forgotten since: 412 `KEY_EXPIRED`.',
  );
export const transactionHeaders = z.looseObject({
  'idempotency-key': z.string().describe('1 to 100 printable characters.'),
  'idempotency-first-sent': firstSent,
});
export const shownTransaction = committed.extend({
  status: z.enum(['committed', 'rejected']),
  actor: z.string(),
  error: z.object({ code: z.string(), message: z.string() }).optional(),
});
export const shownIdempotency = z.object({
  idempotency_key: z.string(),
  status: z.enum(['committed', 'rejected']),
  request: transactionBody,
  response: z.unknown().describe('The answer as it was given.'),
  created_at: z.string(),
});
export const accountBody = z.object({ category: z.string(), asset: z.string() });
export const accountHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .optional()
    .describe('1 to 100 printable characters. A retry with the same one gets the same id.'),
  'idempotency-first-sent': firstSent,
});
export const accountId = z.object({ id: z.string() });
export const shownAccount = z.object({
  id: z.string(),
  category: z.string(),
  asset: z.string(),
  balance: z.string(),
  version: z.int(),
});
const blockHeader = z
  .object({
    height: z.int(),
    previous: z.string(),
    transactions: z.string(),
    count: z.int(),
    state: z.string(),
    at: z.int(),
    term: z.int(),
  })
  .describe(
    'SHA-256 of `H` and this as JSON, with the members in this order, is the hash of the block.',
  );
const path = z
  .array(z.array(z.string()))
  .describe('The digests beside the way to the top, in hex.');
export const accountProof = z.object({
  account: shownAccount.extend({ number: z.int() }),
  block_header: blockHeader,
  parts: z.object({ account_count: z.int(), accounts: z.string(), rows: z.string() }),
  proof: z.object({ account_count: z.int(), leaf: z.string(), path }),
});
export const transactionProof = z.object({
  transaction: z.string().describe('The text that the proof is about.'),
  block_header: blockHeader,
  proof: z.object({ position: z.int(), count: z.int(), path }),
});
export const accountPage = z.object({
  account_id: z.string(),
  entries: z.array(
    z.object({
      id: z.string(),
      transaction_id: z.string(),
      sequence: z.int(),
      type: z.string(),
      asset: z.string(),
      amount: z.string(),
      direction: z.enum(['debit', 'credit']),
      counterpart: z.string(),
      balance_after: z.string(),
      created_at: z.string(),
    }),
  ),
  next_cursor: z.string().nullable().describe('Where the next page begins; null at the end.'),
  trimmed: z.boolean().describe('Older entries existed and are no longer kept.'),
});
export const pageQuery = z.object({ cursor: z.string().optional(), limit: z.string().optional() });
export const idPath = z.object({ id: z.string() });
export const keyPath = z.object({ key: z.string() });
export const recovered = z.object({
  records: z.array(
    z.object({
      idempotency_key: z.string(),
      transaction_id: z.string(),
      status: z.enum(['committed', 'rejected']),
      created_at: z.string(),
    }),
  ),
  count: z.int(),
});
export const integrity = z.object({
  ok: z.boolean(),
  chain: z.object({
    ok: z.boolean(),
    first: z.int(),
    last: z.int(),
    lost_before: z.int().nullable(),
    transactions: z.int(),
    problem: z.string().nullable(),
  }),
  state: z.object({
    ok: z.boolean(),
    height: z.int(),
    assets: z.array(z.object({ asset: z.string(), accounts: z.int(), sum: z.string() })),
    problem: z.string().nullable(),
  }),
});

const refusal = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    retry: z.enum(['same_key', 'new_key', 'never']).optional(),
    happened: z.enum(['no', 'yes', 'unknown']).optional(),
    layer: z.enum(['in_flight', 'batch', 'database']).optional(),
  }),
});
export const refusals = { '4xx': refusal, '5xx': refusal };
