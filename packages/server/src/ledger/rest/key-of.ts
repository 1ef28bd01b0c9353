import type { Refusal } from '@onceward/ledger';
import type { FastifyRequest } from 'fastify';
import { FIRST_SENT_FORM, nodeKeyLines, parseHttpDate, readKey } from 'onceward/http';
import { Problem } from '../../api/problem.ts';

/** The key of a request, `undefined` if it has none. */
export function keyOf({ raw }: FastifyRequest): string | undefined | Refusal {
  const reading = readKey(nodeKeyLines(raw), 'ledger');
  if (reading.kind === 'key') return reading.key;
  if (reading.kind === 'none') return undefined;
  const message = `The Idempotency-Key is not valid: ${reading.reason}.`;
  return { ok: false, code: 'IDEMPOTENCY_KEY_INVALID', message };
}

/** When a request was first sent, if its client says so. Asked only where there is a key. */
export function firstSentOf({ raw }: FastifyRequest): number | undefined {
  const { firstSent } = nodeKeyLines(raw);
  if (firstSent === undefined) return undefined;
  const at = parseHttpDate(firstSent);
  if (at === null) throw new Problem('first-sent-invalid', `${FIRST_SENT_FORM}.`);
  return at;
}
