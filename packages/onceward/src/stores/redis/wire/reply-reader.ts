import { KIB } from '../../../engine/units.ts';
import type { Reply } from '../redis-driver.ts';
import { COLON, CR, DOLLAR, LF, MINUS, PLUS, STAR, ZERO } from './protocol.ts';

/** An array of which not all items have come. */
interface OpenArray {
  readonly items: Reply[];
  left: number;
}

/** Lines hold numbers, words and errors; Redis has none that is nearly as long. */
const LONGEST_LINE = 64 * KIB;
/** Redis holds no longer text. */
const LONGEST_TEXT = 512 * KIB * KIB;
/** Of arrays in arrays. */
const DEEPEST = 32;

/**
 * Reads replies (RESP 2) out of the pieces in which a socket gives them. Each is read once: of a reply that is cut off
 * the complete parts are kept, and the pieces of a long text are put together when the last has come.
 */
export class ReplyReader {
  readonly #found: (reply: Reply) => void;
  readonly #open: OpenArray[] = [];
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** With fewer bytes than these there is nothing to be read. */
  #needed = 0;

  constructor(found: (reply: Reply) => void) {
    this.#found = found;
  }

  /** Throws when this is nothing that Redis sends; nothing can be read after that. */
  read(piece: Buffer): void {
    let bytes = piece;
    if (this.#heldBytes > 0) {
      this.#held.push(piece);
      this.#heldBytes += piece.length;
      if (this.#heldBytes < this.#needed) return;
      bytes = Buffer.concat(this.#held);
    }
    const end = this.#readAll(bytes);
    const rest = bytes.length - end;
    this.#held = rest === 0 ? [] : [bytes.subarray(end)];
    this.#heldBytes = rest;
  }

  /** Gives the place up to which all was read. */
  #readAll(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length) {
      const lineEnd = bytes.indexOf(LF, at);
      if (lineEnd === -1) {
        if (bytes.length - at > LONGEST_LINE) throw notRedis('a line without an end');
        this.#needed = bytes.length - at + 1;
        return at;
      }
      const behind = this.#readOne(bytes, at, lineEnd);
      if (behind === null) return at;
      at = behind;
    }
    return at;
  }

  /** Gives the place behind it, or `null` where not all of it is there. */
  #readOne(bytes: Buffer, at: number, lineEnd: number): number | null {
    const start = at + 1;
    const end = lineEnd - 1;
    if (end < start || bytes[end] !== CR) throw notRedis('a line that ends badly');
    switch (bytes[at]) {
      case COLON:
        this.#give(numberIn(bytes, start, end));
        break;
      case PLUS:
        this.#give(bytes.subarray(start, end));
        break;
      case MINUS:
        this.#give(new Error(bytes.toString('utf8', start, end)));
        break;
      case STAR:
        this.#begin(numberIn(bytes, start, end));
        break;
      case DOLLAR:
        return this.#readText(bytes, at, lineEnd + 1, numberIn(bytes, start, end));
      default:
        throw notRedis('a reply of no known kind');
    }
    return lineEnd + 1;
  }

  #readText(bytes: Buffer, at: number, start: number, length: number): number | null {
    if (length < 0) {
      this.#give(null);
      return start;
    }
    if (length > LONGEST_TEXT) throw notRedis('a text that is too long');
    const end = start + length;
    if (end + 2 > bytes.length) {
      this.#needed = end + 2 - at;
      return null;
    }
    if (bytes[end] !== CR || bytes[end + 1] !== LF) throw notRedis('a text that ends badly');
    this.#give(bytes.subarray(start, end));
    return end + 2;
  }

  #begin(length: number): void {
    if (length <= 0) {
      this.#give(length === 0 ? [] : null);
      return;
    }
    if (this.#open.length === DEEPEST) throw notRedis('arrays in arrays');
    this.#open.push({ items: [], left: length });
  }

  #give(reply: Reply): void {
    let whole = reply;
    for (let open = this.#open.at(-1); open !== undefined; open = this.#open.at(-1)) {
      open.items.push(whole);
      open.left -= 1;
      if (open.left > 0) return;
      this.#open.pop();
      whole = open.items;
    }
    this.#found(whole);
  }
}

function numberIn(bytes: Buffer, start: number, end: number): number {
  const isNegative = bytes[start] === MINUS;
  let number = 0;
  for (let at = isNegative ? start + 1 : start; at < end; at += 1) {
    const digit = bytes[at]! - ZERO;
    if (digit < 0 || digit > 9) throw notRedis('a number that is none');
    number = number * 10 + digit;
  }
  if (end === start || !Number.isSafeInteger(number)) throw notRedis('a number that is none');
  return isNegative ? -number : number;
}

function notRedis(what: string): Error {
  return new Error(`what answers is not Redis, or not over this protocol: it sent ${what}`);
}
