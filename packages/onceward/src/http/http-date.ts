import type { EpochMs } from '../engine/units.ts';

let lastSecond = Number.NaN;
let lastText = '';

/** A moment as HTTP writes it, in whole seconds, never later than it is. Answers of one second share their text. */
export function httpDate(at: EpochMs): string {
  const second = Math.floor(at / 1_000);
  if (second !== lastSecond) {
    lastText = new Date(second * 1_000).toUTCString();
    lastSecond = second;
  }
  return lastText;
}

export const FIRST_SENT_FORM =
  'Idempotency-First-Sent must be one date, written as in Sun, 06 Nov 1994 08:49:37 GMT';

/** `null`: it is not written as in `Sun, 06 Nov 1994 08:49:37 GMT`, or names no real day. */
export function parseHttpDate(text: string): EpochMs | null {
  const at = Date.parse(text);
  return !Number.isNaN(at) && new Date(at).toUTCString() === text ? at : null;
}
