import { hash, randomBytes, scrypt, timingSafeEqual } from 'node:crypto';

/** What the first version of the file used: about 16 MiB and some 30 ms for each guess. */
const SCRYPT_COST = { N: 16_384, r: 8, p: 1 };
const HASH_BYTES = 32;
const SALT_BYTES = 16;

export interface SecretHash {
  readonly salt: string;
  readonly hash: string;
  /** Absent: scrypt. */
  readonly kind?: 'sha256' | undefined;
}

/** Matches no secret that anybody can find, and takes as long as one that does. */
export const NOBODY: SecretHash = { salt: '0'.repeat(32), hash: '0'.repeat(64) };

/**
 * A quick hash, because every secret that is kept was made here, of 192 random bits: they cannot all be tried, however
 * quick one try is. Only secrets that people choose need a slow one.
 */
export function hashSecret(secret: string): SecretHash {
  const salt = randomBytes(SALT_BYTES).toString('hex');
  return { salt, hash: hash('sha256', salt + secret), kind: 'sha256' };
}

export function matchesQuickly(secret: string, kept: SecretHash): boolean {
  const given = hash('sha256', kept.salt + secret, 'buffer');
  return timingSafeEqual(given, Buffer.from(kept.hash, 'hex'));
}

export function matchesSlowly(secret: string, kept: SecretHash): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const salt = Buffer.from(kept.salt, 'hex');
    scrypt(secret, salt, HASH_BYTES, SCRYPT_COST, (error, derived) => {
      if (error === null) resolve(timingSafeEqual(derived, Buffer.from(kept.hash, 'hex')));
      else reject(error);
    });
  });
}
