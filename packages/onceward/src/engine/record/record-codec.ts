import { OUTCOME_CEILING } from '../policy.ts';
import type {
  DoubtReason,
  KeptOutcome,
  OperationId,
  OperationRecord,
  RecordState,
  Resolution,
  Step,
} from '../record.ts';
import { checksumBytes, checksumText } from './checksum.ts';

/**
 * A record as bytes, written once here for every store.
 *
 *   0 schema  1 state  2 flags  3 outcome codec  4 checksum (of all that follows, and of bytes 0–3, seeded by the id)
 *   8 attempt  12 fence  20 createdAt  28 leaseUntil | settledAt | since  36 keepUntil
 *  44 lengths: fingerprint, owner, content type, resolved by, resolved why; 54 steps (count), outcome size, outcome
 * bytes  64 the texts, the steps, the outcome
 *
 * Numbers are little-endian. A schema above ours, or anything that does not add up, is unreadable: the caller
 * treats it as in doubt and never writes over it by itself.
 */
const SCHEMA = 1;
const HEADER = 64;
const CHECKSUM_AT = 4;
const TEXT_LENGTHS = 44;
const STATES: readonly RecordState[] = ['pending', 'committed', 'rejected', 'in_doubt'];
const DOUBTS: readonly DoubtReason[] = [
  'lease_lapsed',
  'effect_threw',
  'unreadable',
  'outcome_unknown',
];
const FLAG_DOUBT_ON_LAPSE = 1;
const FLAG_RESOLVED = 2;
const DOUBT_SHIFT = 4;
/** UTF-8 has at most three bytes for a UTF-16 code unit. */
const WIDEST_UNIT = 3;

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Small records are cut from a slab: a buffer of its own for each would cost more than all the rest of encoding.
 * A store that keeps the bytes for long copies them.
 */
const SLAB = 65_536;
let slab = new Uint8Array(SLAB);
let slabView = new DataView(slab.buffer);
let slabUsed = 0;

export function encodeRecord(id: OperationId, record: OperationRecord): Uint8Array {
  const { fingerprint, owner, steps } = record;
  const outcome = 'outcome' in record ? record.outcome : null;
  const resolution = 'resolution' in record ? record.resolution : null;
  const contentType = outcome?.contentType ?? '';
  const by = resolution?.by ?? '';
  const why = resolution?.reason ?? '';
  const units = fingerprint.length + owner.length + contentType.length + by.length + why.length;
  const most = HEADER + WIDEST_UNIT * units + longestSteps(steps) + (outcome?.bytes.length ?? 0);
  const isSmall = most <= SLAB / 8;
  if (isSmall && slabUsed + most > SLAB) takeNewSlab();
  const target = isSmall ? slab : new Uint8Array(most);
  const view = isSmall ? slabView : new DataView(target.buffer);
  const start = isSmall ? slabUsed : 0;

  writeHeader(target, view, start, record, outcome);
  const lengths = start + TEXT_LENGTHS;
  let at = start + HEADER;
  at = writeText(target, view, lengths, at, fingerprint);
  at = writeText(target, view, lengths + 2, at, owner);
  at = writeText(target, view, lengths + 4, at, contentType);
  at = writeText(target, view, lengths + 6, at, by);
  at = writeText(target, view, lengths + 8, at, why);
  for (const step of steps) {
    view.setUint32(at + 2, step.bytes.length, true);
    at = writeText(target, view, at, at + 6, step.name);
    target.set(step.bytes, at);
    at += step.bytes.length;
  }
  if (outcome !== null) {
    target.set(outcome.bytes, at);
    at += outcome.bytes.length;
  }
  if (isSmall) slabUsed = at;
  view.setUint32(start + CHECKSUM_AT, checksum(id, view, start, at), true);
  return target.subarray(start, at);
}

function writeHeader(
  target: Uint8Array,
  view: DataView,
  start: number,
  record: OperationRecord,
  outcome: KeptOutcome | null,
): void {
  target[start] = SCHEMA;
  target[start + 1] = STATES.indexOf(record.state);
  target[start + 2] = flagsOf(record);
  target[start + 3] = outcome?.codec ?? 0;
  view.setUint32(start + 8, record.attempt, true);
  view.setFloat64(start + 12, record.fence, true);
  view.setFloat64(start + 20, record.createdAt, true);
  view.setFloat64(start + 28, pivotTime(record), true);
  view.setFloat64(start + 36, 'keepUntil' in record ? record.keepUntil : 0, true);
  view.setUint16(start + 54, record.steps.length, true);
  view.setUint32(start + 56, outcome?.size ?? 0, true);
  view.setUint32(start + 60, outcome?.bytes.length ?? 0, true);
}

function longestSteps(steps: readonly Step[]): number {
  let most = 0;
  for (const { name, bytes } of steps) most += 6 + WIDEST_UNIT * name.length + bytes.length;
  return most;
}

function takeNewSlab(): void {
  slab = new Uint8Array(SLAB);
  slabView = new DataView(slab.buffer);
  slabUsed = 0;
}

/**
 * Writes a text and, elsewhere, its length; gives the place behind it. Fingerprints, owners and media types are ASCII
 * nearly always; the encoder is for the rest.
 */
function writeText(
  target: Uint8Array,
  view: DataView,
  lengthAt: number,
  at: number,
  text: string,
): number {
  let { length } = text;
  for (let i = 0; i < length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit > 127) {
      length = utf8.encodeInto(text, target.subarray(at)).written;
      break;
    }
    target[at + i] = unit;
  }
  view.setUint16(lengthAt, length, true);
  return at + length;
}

/** The record, or `null` when the bytes cannot be read as one that belongs to this id. */
export function decodeRecord(id: OperationId, bytes: Uint8Array): OperationRecord | null {
  if (bytes.length < HEADER || bytes[0] !== SCHEMA) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (view.getUint32(CHECKSUM_AT, true) !== checksum(id, view, 0, bytes.length)) return null;
  try {
    return readFields(bytes, view);
  } catch {
    return null;
  }
}

function readFields(bytes: Uint8Array, view: DataView): OperationRecord | null {
  const state = STATES[bytes[1]!];
  if (state === undefined) return null;
  const reader = new FieldReader(bytes);
  const fingerprint = reader.text(view.getUint16(44, true));
  const owner = reader.text(view.getUint16(46, true));
  const contentType = reader.text(view.getUint16(48, true));
  const by = reader.text(view.getUint16(50, true));
  const why = reader.text(view.getUint16(52, true));
  const steps: Step[] = [];
  for (let left = view.getUint16(54, true); left > 0; left -= 1) {
    const nameLength = view.getUint16(reader.at, true);
    const valueLength = view.getUint32(reader.at + 2, true);
    reader.at += 6;
    steps.push({ name: reader.text(nameLength), bytes: reader.take(valueLength) });
  }
  const size = view.getUint32(56, true);
  const kept = reader.take(view.getUint32(60, true));
  if (reader.at !== bytes.length || size > OUTCOME_CEILING) return null;

  const flags = bytes[2]!;
  const attempt = view.getUint32(8, true);
  const fence = view.getFloat64(12, true);
  const createdAt = view.getFloat64(20, true);
  const pivot = view.getFloat64(28, true);
  const keepUntil = view.getFloat64(36, true);
  // Written out for each state: to spread what they share costs more than all of the reading.
  switch (state) {
    case 'pending': {
      const onLapse = (flags & FLAG_DOUBT_ON_LAPSE) === 0 ? 'take_over' : 'in_doubt';
      const leaseUntil = pivot;
      return {
        state,
        fingerprint,
        owner,
        attempt,
        createdAt,
        steps,
        fence,
        leaseUntil,
        keepUntil,
        onLapse,
      };
    }
    case 'in_doubt': {
      const reason = DOUBTS[flags >> DOUBT_SHIFT];
      const since = pivot;
      return reason === undefined
        ? null
        : { state, fingerprint, owner, attempt, createdAt, steps, fence, reason, since };
    }
    default: {
      const outcome: KeptOutcome = { contentType, codec: bytes[3]!, size, bytes: kept };
      const isResolved = (flags & FLAG_RESOLVED) !== 0;
      const resolution: Resolution | null = isResolved ? { by, reason: why } : null;
      const settledAt = pivot;
      return {
        state,
        fingerprint,
        owner,
        attempt,
        createdAt,
        steps,
        fence,
        outcome,
        settledAt,
        keepUntil,
        resolution,
      };
    }
  }
}

class FieldReader {
  readonly #bytes: Uint8Array;
  at = HEADER;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(length: number): Uint8Array {
    const from = this.at;
    if (from + length > this.#bytes.length) throw new RangeError('record is shorter than it says');
    this.at += length;
    return this.#bytes.subarray(from, this.at);
  }

  text(length: number): string {
    return length === 0 ? '' : fromUtf8.decode(this.take(length));
  }
}

function flagsOf(record: OperationRecord): number {
  switch (record.state) {
    case 'pending':
      return record.onLapse === 'in_doubt' ? FLAG_DOUBT_ON_LAPSE : 0;
    case 'in_doubt':
      return DOUBTS.indexOf(record.reason) << DOUBT_SHIFT;
    default:
      return record.resolution === null ? 0 : FLAG_RESOLVED;
  }
}

function pivotTime(record: OperationRecord): number {
  switch (record.state) {
    case 'pending':
      return record.leaseUntil;
    case 'in_doubt':
      return record.since;
    default:
      return record.settledAt;
  }
}

/** Seeded with the id: bytes that a store mixed up with another record's do not pass. */
function checksum(id: OperationId, view: DataView, start: number, end: number): number {
  const head = view.getInt32(start, true);
  const seed = checksumText(id.key, checksumText(id.scope, head));
  return checksumBytes(view, start + 8, end, seed);
}
