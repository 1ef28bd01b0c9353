import type { Outcome, OutcomeCodec, Platform } from 'onceward';
import { mixed } from '../../dice.ts';

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder();

/** An outcome that says whose it is, so that one given to the wrong caller is seen to be. */
export function outcomeOf(name: string, length: number): Outcome {
  return { contentType: 'text/plain', bytes: utf8.encode(name.padEnd(length, '.')) };
}

export function textOf(outcome: Outcome): string {
  return fromUtf8.decode(outcome.bytes);
}

/** Packs the padding of an outcome away. */
const padding: OutcomeCodec = {
  tag: 7,
  pack: async (bytes) => utf8.encode(fromUtf8.decode(bytes).replace(/\.+$/, '')),
  unpack: async (bytes, size) => utf8.encode(fromUtf8.decode(bytes).padEnd(size, '.')),
};

/** The text of an outcome as a record keeps it. */
export function keptText(kept: { codec: number; size: number; bytes: Uint8Array }): string {
  const text = fromUtf8.decode(kept.bytes);
  return kept.codec === padding.tag ? text.padEnd(kept.size, '.') : text;
}

/** No zlib and no SHA-256: a codec and a digest that are quick, and as deterministic as the rest. */
export const simulatedPlatform: Platform = {
  digest: (text) => {
    const codes = Array.from(text, (character) => character.charCodeAt(0));
    return `${mixed(1, ...codes).toString(16)}${mixed(2, ...codes).toString(16)}`;
  },
  codecs: [padding],
};
