import { ARITY, type Digest, digest } from './merkle-list.ts';

/** What a row holds: plain data that JSON carries without loss. */
export type RowValue = Readonly<Record<string, unknown>>;

export interface Row {
  readonly key: string;
  readonly address: number;
  /** `undefined`: not there, or not any more. */
  value: RowValue | undefined;
  /** `[key, value]` as JSON, as of the last seal; empty while the row is in no bucket. */
  line: string;
}

/** Rows in the order of their keys. */
export type Bucket = Row[];

/** As many buckets as a node of the tree has children: what is read from and written to disk at once. */
export const PAGE_BUCKETS = ARITY;

/** A bucket as the text that is hashed, stored and shown in proofs: a JSON array of `[key, value]` in key order. */
export function bucketText(bucket: Bucket | string): string {
  if (typeof bucket === 'string') return bucket;
  let text = '[';
  for (let at = 0; at < bucket.length; at += 1) {
    if (at > 0) text += ',';
    text += (bucket[at] as Row).line;
  }
  return `${text}]`;
}

export function hashBucket(bucket: Bucket | string): Digest {
  return digest(`B${bucketText(bucket)}`);
}

/** A JSON text holds no line feed, so lines keep buckets apart. */
export function joinPage(buckets: readonly (Bucket | string)[]): string {
  return buckets.map(bucketText).join('\n');
}

export function splitPage(text: string): string[] {
  return text.split('\n');
}

export function rowLine(key: string, value: RowValue): string {
  return `[${JSON.stringify(key)},${JSON.stringify(value)}]`;
}

export function insertRow(bucket: Bucket, row: Row): void {
  let at = bucket.length;
  while (at > 0 && (bucket[at - 1] as Row).key > row.key) at -= 1;
  bucket.splice(at, 0, row);
}
