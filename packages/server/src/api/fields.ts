import { LIMITS } from 'onceward';
import { z } from 'zod';

/** Text that can be stored and found again. The engine refuses the rest, with less to say about where it stood. */
function storable(longest: number) {
  return z
    .string()
    .min(1)
    .max(longest)
    .refine((value) => !value.includes('\0') && value.isWellFormed(), {
      message: 'holds a NUL or half a surrogate pair',
    });
}

export const scope = storable(LIMITS.scope).describe('Whose operation it is.');
export const key = storable(LIMITS.key).describe('Which operation it is.');
export const fingerprint = storable(LIMITS.fingerprint).describe(
  'What is asked for, condensed. The same key with another fingerprint is refused.',
);
export const reason = storable(LIMITS.reason).describe('Why. It is kept in the audit trail.');

const YEAR_MS = 366 * 86_400_000;
export const durationMs = (least: number) => z.int().min(least).max(YEAR_MS);

export const fence = z
  .int()
  .min(1)
  .describe('The number that the reservation gave. It rises with every attempt.');

export const operationPath = z.strictObject({ scope, key });

export const recordState = z.enum(['pending', 'committed', 'rejected', 'in_doubt']);

const LONGEST_BASE64 = 90 * 1_048_576;
export const outcome = z.strictObject({
  content_type: z.string().max(LIMITS.contentType).default('application/octet-stream'),
  body_base64: z
    .base64()
    .max(LONGEST_BASE64)
    .default('')
    .describe('The bytes of the answer, as base64.'),
});
export type OutcomeField = z.output<typeof outcome>;

/** Every refusal has this shape. */
export const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    retry: z
      .enum(['same_key', 'new_key', 'never'])
      .describe(
        'What to send next: this again under the same key, under a new one, or not at all.',
      ),
    happened: z
      .enum(['no', 'yes', 'unknown'])
      .describe('The outcome of the effect. Only after `no` may a new key be used.'),
    errors: z.array(z.object({ field: z.string(), message: z.string() })).optional(),
  })
  .describe('RFC 9457 problem details.');
