import { digest } from './merkle-list.ts';

/** Where a key belongs, before the number of buckets is known: the first 32 bits of its SHA-256. */
export function addressOf(key: string): number {
  const hash = digest(key);
  const high = (hash.charCodeAt(0) << 24) | (hash.charCodeAt(1) << 16);
  return (high | (hash.charCodeAt(2) << 8) | hash.charCodeAt(3)) >>> 0;
}

/**
 * Linear hashing: with any number of buckets each address has one, and adding a bucket moves only some rows of
 * one other. So the table grows a bucket at a time, and no write ever pays for moving everything.
 */
export function bucketOf(address: number, bucketCount: number): number {
  const half = 1 << (31 - Math.clz32(bucketCount));
  const wide = address & (2 * half - 1);
  return wide < bucketCount ? wide : address & (half - 1);
}

/** The bucket whose rows are divided when bucket number `bucketCount` is added. */
export function splitSource(bucketCount: number): number {
  return bucketCount - (1 << (31 - Math.clz32(bucketCount)));
}
