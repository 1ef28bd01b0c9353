/** Where randomness comes from. The default is the platform's cryptographic source; a simulation brings its own. */
export type RandomBytes = (length: number) => Uint8Array;

export const cryptoBytes: RandomBytes = (length) =>
  globalThis.crypto.getRandomValues(new Uint8Array(length));

export function toHex(bytes: Uint8Array): string {
  let hex = '';
  for (const byte of bytes) hex += byte.toString(16).padStart(2, '0');
  return hex;
}
