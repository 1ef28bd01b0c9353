import type { Refusal } from '@onceward/ledger';
import type { FastifyRequest } from 'fastify';
import { nodeKeyLines, readKey } from 'onceward/http';

/** The key of a request, `undefined` if it has none. */
export function keyOf({ raw }: FastifyRequest): string | undefined | Refusal {
  const reading = readKey(nodeKeyLines(raw), 'ledger');
  if (reading.kind === 'key') return reading.key;
  if (reading.kind === 'none') return undefined;
  const message = `The Idempotency-Key is not valid: ${reading.reason}.`;
  return { ok: false, code: 'IDEMPOTENCY_KEY_INVALID', message };
}
