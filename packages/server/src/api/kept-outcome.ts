import { nodePlatform, type OperationRecord, type Outcome } from 'onceward';

const { codecs } = nodePlatform();

/** The answer that a record keeps, unpacked; `null` where there is none, or none that can be unpacked. */
export async function keptOutcome(record: OperationRecord | null): Promise<Outcome | null> {
  if (record === null || !('outcome' in record)) return null;
  const { contentType, codec: tag, size, bytes } = record.outcome;
  if (tag === 0) return { contentType, bytes };
  const codec = codecs.find((candidate) => candidate.tag === tag);
  if (codec === undefined) return null;
  return { contentType, bytes: await codec.unpack(bytes, size) };
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
