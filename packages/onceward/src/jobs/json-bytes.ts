/** Typed arrays up to this length live in the heap itself; longer ones have memory of their own, which costs more. */
const IN_HEAP = 64;

const decoder = new TextDecoder();

/**
 * JSON as bytes. Every submission makes several, and most are short and ASCII: those are written by hand, which spares
 * the garbage collector a buffer for each.
 */
export function toJsonBytes(value: unknown): Uint8Array {
  const text = JSON.stringify(value);
  return text.length <= IN_HEAP ? shortBytes(text) : Buffer.from(text);
}

export function fromJsonBytes(bytes: Uint8Array): unknown {
  return JSON.parse(decoder.decode(bytes));
}

function shortBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit > 127) return Buffer.from(text);
    bytes[i] = unit;
  }
  return bytes;
}
