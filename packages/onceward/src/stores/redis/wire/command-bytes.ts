import { KIB } from '../../../engine/units.ts';
import type { Argument, Command } from '../redis-driver.ts';
import { CR, DOLLAR, LF, STAR, ZERO } from './protocol.ts';

/** Short commands are cut from a slab. Nothing in it is written over: the socket may not have sent it yet. */
const SLAB = 256 * KIB;
/** What an argument takes beside its bytes: a sign, its length, and the ends of two lines. */
const FRAME = 16;
/** UTF-8 has at most three bytes for a UTF-16 code unit. */
const WIDEST_UNIT = 3;

/** Puts commands into the bytes that Redis reads: their number of arguments, then each with its length before it. */
export class CommandBytes {
  #target = Buffer.allocUnsafeSlow(SLAB);
  #at = 0;

  encode(command: Command): Buffer {
    const most = longest(command);
    if (most > SLAB / 4) return this.#encodeLong(command, most);
    if (this.#at + most > SLAB) {
      this.#target = Buffer.allocUnsafeSlow(SLAB);
      this.#at = 0;
    }
    return this.#write(command);
  }

  #encodeLong(command: Command, most: number): Buffer {
    const slab = this.#target;
    const used = this.#at;
    this.#target = Buffer.allocUnsafeSlow(most);
    this.#at = 0;
    try {
      return this.#write(command);
    } finally {
      this.#target = slab;
      this.#at = used;
    }
  }

  #write(command: Command): Buffer {
    const start = this.#at;
    this.#writeHead(STAR, command.length);
    for (const argument of command) {
      if (typeof argument === 'string') this.#writeText(argument);
      else this.#writeBytes(argument);
    }
    return this.#target.subarray(start, this.#at);
  }

  #writeText(text: string): void {
    const start = this.#at;
    this.#writeHead(DOLLAR, text.length);
    let length = this.#target.write(text, this.#at);
    if (length !== text.length) {
      // Not all of it is ASCII, so it has more bytes than was said.
      this.#at = start;
      this.#writeHead(DOLLAR, length);
      length = this.#target.write(text, this.#at);
    }
    this.#at += length;
    this.#endLine();
  }

  #writeBytes(bytes: Buffer): void {
    this.#writeHead(DOLLAR, bytes.length);
    this.#target.set(bytes, this.#at);
    this.#at += bytes.length;
    this.#endLine();
  }

  #writeHead(sign: number, number: number): void {
    this.#target[this.#at++] = sign;
    this.#writeNumber(number);
    this.#endLine();
  }

  #writeNumber(number: number): void {
    if (number > 9) this.#writeNumber(Math.floor(number / 10));
    this.#target[this.#at++] = ZERO + (number % 10);
  }

  #endLine(): void {
    this.#target[this.#at++] = CR;
    this.#target[this.#at++] = LF;
  }
}

function longest(command: Command): number {
  let most = FRAME;
  for (const argument of command) most += FRAME + mostBytes(argument);
  return most;
}

function mostBytes(argument: Argument): number {
  return typeof argument === 'string' ? WIDEST_UNIT * argument.length : argument.length;
}
