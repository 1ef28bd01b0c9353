import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, deflateRaw, inflateRaw } from 'node:zlib';
import type { OutcomeCodec, Platform } from '../engine/platform.ts';
import { keepTicksQuick } from './quick-ticks.ts';

const pack = promisify<Uint8Array, object, Buffer>(deflateRaw);
const unpack = promisify<Uint8Array, object, Buffer>(inflateRaw);

/** Raw deflate at a fast level, off the event loop. Unpacking stops at the size that the record promised. */
const deflate: OutcomeCodec = {
  tag: 1,
  pack: (bytes) => pack(bytes, { level: constants.Z_BEST_SPEED }),
  unpack: (bytes, size) => unpack(bytes, { maxOutputLength: Math.max(1, size) }),
};

// Now, and not with the first engine: that may be made in a request, whose context would be kept as well.
keepTicksQuick();

export function nodePlatform(): Platform {
  return { digest: (text) => hash('sha256', text, 'hex'), codecs: [deflate] };
}
