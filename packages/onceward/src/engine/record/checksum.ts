/**
 * A 32-bit checksum of bytes, seeded. Four bytes a round, multiply and rotate: finds every flipped bit and torn
 * tail we can expect, and costs a few hundred nanoseconds. It keeps accidents out, not adversaries.
 */
export function checksumBytes(view: DataView, from: number, end: number, seed: number): number {
  let hash = seed ^ (end - from);
  const whole = from + ((end - from) & ~3);
  for (let i = from; i < whole; i += 4) hash = mix(hash, view.getInt32(i, true));
  let rest = 0;
  for (let i = whole; i < end; i += 1) rest = (rest << 8) | view.getUint8(i);
  return finish(mix(hash, rest));
}

/** The same for text, by UTF-16 code units. Used as a seed, so that a record answers for one id only. */
export function checksumText(text: string, seed: number): number {
  let hash = seed ^ text.length;
  for (let i = 0; i < text.length; i += 1) hash = mix(hash, text.charCodeAt(i));
  return hash;
}

function mix(hash: number, word: number): number {
  const product = Math.imul(word, 0xcc9e2d51);
  const turned = Math.imul((product << 15) | (product >>> 17), 0x1b873593);
  const next = hash ^ turned;
  return (Math.imul((next << 13) | (next >>> 19), 5) + 0xe6546b64) | 0;
}

function finish(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35);
  return (twice ^ (twice >>> 16)) >>> 0;
}
