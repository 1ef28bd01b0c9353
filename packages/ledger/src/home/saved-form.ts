import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { StoreError } from 'onceward';
import { EarlierFormat } from '../earlier-format.ts';
import type { KeyRun } from '../state/key-window.ts';
import type { CheckpointMeta } from '../state/ledger-home.ts';

/** A checksum of all that follows. */
const SUM_BYTES = 4;
/** The checksum, and the end of the stretch. */
const RUN_HEAD_BYTES = SUM_BYTES + 8;

export function encodeRun({ until, words }: KeyRun): Buffer {
  const bytes = Buffer.alloc(RUN_HEAD_BYTES + words.byteLength);
  bytes.writeDoubleLE(until, SUM_BYTES);
  bytes.set(new Uint8Array(words.buffer, words.byteOffset, words.byteLength), RUN_HEAD_BYTES);
  bytes.writeUInt32LE(crc32(bytes.subarray(SUM_BYTES)));
  return bytes;
}

export function decodeRun(bytes: Buffer): KeyRun {
  if (!isSound(bytes, RUN_HEAD_BYTES)) {
    throw damaged('A run of idempotency keys does not match its checksum.');
  }
  const content = new Uint8Array(bytes.subarray(RUN_HEAD_BYTES));
  return { until: bytes.readDoubleLE(SUM_BYTES), words: new Int32Array(content.buffer) };
}

/** The text of a block behind its checksum. */
export function encodeBlock(text: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(SUM_BYTES + text.length);
  bytes.writeUInt32LE(crc32(text));
  bytes.set(text, SUM_BYTES);
  return bytes;
}

/** `undefined` if the block was damaged. */
export function decodeBlock(bytes: Buffer): Buffer | undefined {
  return isSound(bytes, SUM_BYTES) ? bytes.subarray(SUM_BYTES) : undefined;
}

function isSound(bytes: Buffer, least: number): boolean {
  return bytes.length >= least && bytes.readUInt32LE() === crc32(bytes.subarray(SUM_BYTES));
}

/** The hash of the text that follows, and the text. */
export function encodeMeta(meta: CheckpointMeta): string {
  const text = JSON.stringify(meta);
  return `${hash('sha256', text, 'hex')}\n${text}`;
}

export function decodeMeta(stored: string): CheckpointMeta {
  if (stored.startsWith('{"version":1,')) throw new EarlierFormat();
  const [sum, text] = stored.split('\n', 2) as [string, string | undefined];
  if (text === undefined || hash('sha256', text, 'hex') !== sum) {
    throw damaged('What was saved of the checkpoint does not match its checksum.');
  }
  return JSON.parse(text) as CheckpointMeta;
}

function damaged(message: string): StoreError {
  return new StoreError('ONCE_RECORD_UNREADABLE', message, { applied: 'no' });
}
