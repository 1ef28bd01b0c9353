import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';

/** About 16 MiB and some 30 ms for each guess. */
const COST = { N: 16_384, r: 8, p: 1 };
const HASH_BYTES = 32;
const SALT_BYTES = 16;

export interface SecretHash {
  readonly salt: string;
  readonly hash: string;
}

export async function hashSecret(secret: string): Promise<SecretHash> {
  const salt = randomBytes(SALT_BYTES);
  return { salt: salt.toString('hex'), hash: (await derive(secret, salt)).toString('hex') };
}

export async function matchesHash(secret: string, kept: SecretHash): Promise<boolean> {
  const derived = await derive(secret, Buffer.from(kept.salt, 'hex'));
  return timingSafeEqual(derived, Buffer.from(kept.hash, 'hex'));
}

function derive(secret: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(secret, salt, HASH_BYTES, COST, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}
