import type { OperationRecord, RecordView } from 'onceward';
import { z } from 'zod';
import { recordState } from '../fields.ts';

/** A record as the admin API shows it. Times are in milliseconds since 1970. */
export const recordView = z.object({
  scope: z.string(),
  key: z.string(),
  state: recordState,
  revision: z.int(),
  readable: z.boolean().describe('False: the stored bytes make no sense; only void or purge help.'),
  fingerprint: z.string().optional(),
  attempt: z.int().optional(),
  fence: z.int().optional(),
  created_at: z.int().optional(),
  steps: z.array(z.string()).optional().describe('Steps that are done.'),
  lease_until: z.int().optional(),
  on_lapse: z.enum(['take_over', 'in_doubt']).optional(),
  settled_at: z.int().optional(),
  keep_until: z.int().optional(),
  resolution: z.object({ by: z.string(), reason: z.string() }).nullable().optional(),
  reason: z.string().optional(),
  since: z.int().optional(),
  outcome: z
    .object({ content_type: z.string(), size: z.int(), body_base64: z.string().optional() })
    .optional(),
});
export type RecordViewBody = z.input<typeof recordView>;

export function viewRecord(view: RecordView): RecordViewBody {
  const { id, state, revision, record } = view;
  const base = { scope: id.scope, key: id.key, state, revision };
  if (record === null) return { ...base, readable: false };
  const { fingerprint, attempt, createdAt, steps } = record;
  return {
    ...base,
    readable: true,
    fingerprint,
    attempt,
    // The write that claims does not know its own revision yet, which is the fence.
    fence: record.fence === 0 ? revision : record.fence,
    created_at: createdAt,
    steps: steps.map(({ name }) => name),
    ...viewState(record),
  };
}

function viewState(record: OperationRecord): Partial<RecordViewBody> {
  switch (record.state) {
    case 'pending': {
      const { leaseUntil, onLapse, keepUntil } = record;
      return { lease_until: leaseUntil, on_lapse: onLapse, keep_until: keepUntil };
    }
    case 'in_doubt':
      return { reason: record.reason, since: record.since };
    default: {
      const { settledAt, keepUntil, resolution, outcome } = record;
      return {
        settled_at: settledAt,
        keep_until: keepUntil,
        resolution,
        outcome: { content_type: outcome.contentType, size: outcome.size },
      };
    }
  }
}
