/**
 * As much of the protobuf wire format as etcd's key-value API needs: whole numbers, bytes and nested messages. A field
 * is its number and a value; what is zero or empty is left out, as the format has it.
 */
export type Field = readonly [field: number, value: number | Uint8Array];

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

export function encodeMessage(...fields: readonly Field[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const [field, value] of fields) {
    if (typeof value === 'number') {
      if (value !== 0) parts.push(varint(field * 8 + VARINT), varint(value));
    } else {
      parts.push(varint(field * 8 + BYTES), varint(value.length), value);
    }
  }
  return Buffer.concat(parts);
}

/** The fields of a message by number; a field that repeats has several values. */
export class Message {
  readonly #numbers = new Map<number, number>();
  readonly #bytes = new Map<number, Buffer[]>();

  constructor(buffer: Buffer) {
    const reader = new Reader(buffer);
    while (!reader.atEnd) {
      const tag = reader.varint();
      const field = Math.floor(tag / 8);
      switch (tag % 8) {
        case VARINT:
          this.#numbers.set(field, reader.varint());
          break;
        case BYTES:
          this.#bytes.set(field, [...(this.#bytes.get(field) ?? []), reader.take(reader.varint())]);
          break;
        case FIXED64:
          reader.take(8);
          break;
        case FIXED32:
          reader.take(4);
          break;
        default:
          throw new Error(`field ${field} has a wire type that is not known`);
      }
    }
  }

  number(field: number): number {
    return this.#numbers.get(field) ?? 0;
  }

  bytes(field: number): Buffer {
    return this.#bytes.get(field)?.at(-1) ?? Buffer.alloc(0);
  }

  message(field: number): Message {
    return new Message(this.bytes(field));
  }

  messages(field: number): Message[] {
    return (this.#bytes.get(field) ?? []).map((bytes) => new Message(bytes));
  }
}

class Reader {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  get atEnd(): boolean {
    return this.#at >= this.#buffer.length;
  }

  /** Exact below 2^53; ids above that are read as near as they can be, and never compared. */
  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#buffer[this.#at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw new Error('a number is cut off');
  }

  take(count: number): Buffer {
    const end = this.#at + count;
    if (end > this.#buffer.length) throw new Error('a field is cut off');
    const bytes = this.#buffer.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
  return Uint8Array.from(bytes);
}
