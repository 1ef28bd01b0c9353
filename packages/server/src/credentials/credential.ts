import { randomBytes } from 'node:crypto';
import { z } from 'zod';

/**
 * What a credential lets its bearer do. `admin` may do everything, `read_only` may read everything, `client` may
 * use the operations API within a tenant of its own.
 */
export const ROLES = ['admin', 'read_only', 'client'] as const;
export type Role = (typeof ROLES)[number];

/** Whom a credential stands for in the ledger, if not for itself: a person, or a program of the house. */
export const ACTOR = /^(?:user|system):[\x21-\x7e]{1,190}$/;

/** What is kept of a credential: enough to recognise the secret, not enough to know it. */
export const storedCredential = z.strictObject({
  api_key: z.string().min(1).max(256),
  role: z.enum(ROLES),
  /** Whose operations it may touch; `null` for all. */
  tenant: z.string().min(1).max(64).nullable(),
  /** Absent: the credential itself, as `client:{api_key}`. */
  actor: z.string().regex(ACTOR).optional(),
  salt: z.string().regex(/^[0-9a-f]{32}$/),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  /** Absent in the first version of the file: scrypt. */
  kind: z.literal('sha256').optional(),
  created_at: z.iso.datetime(),
});
export type StoredCredential = z.output<typeof storedCredential>;

/** Who is asking, once that has been proven. */
export interface Principal {
  readonly apiKey: string;
  readonly role: Role;
  readonly tenant: string | null;
  /** As `StoredCredential` has it. */
  readonly actor?: string;
}

export interface Secret {
  readonly apiKey: string;
  readonly apiSecret: string;
}

export function mintSecret(): Secret {
  return {
    apiKey: `ak_${randomBytes(12).toString('hex')}`,
    apiSecret: `sk_${randomBytes(24).toString('base64url')}`,
  };
}

/** What `mintSecret` makes, never chosen by a person. */
export const MINTED_SECRET = /^sk_[\w-]{32}$/;
