import { randomBytes } from 'node:crypto';

/** Numbers of up to 15 characters are what they say; from 16 on a double may have rounded. */
const LONG_NUMBER = /[\d.]{16}/;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const INTEGER = /^-?\d+$/;
const LONGEST_EXACT = 15;
/** Longer ones are in no range that the ledger knows, and slow to convert. */
const LONGEST_INTEGER = 1_000;

const QUOTE = '"'.charCodeAt(0);
const BACKSLASH = '\\'.charCodeAt(0);
const COLON = ':'.charCodeAt(0);
const OPENING_BRACE = '{'.charCodeAt(0);
const CLOSING_BRACE = '}'.charCodeAt(0);
const BLANKS = new Set([...' \t\n\r'].map((blank) => blank.charCodeAt(0)));
const NUMBER_CHARACTERS = new Set(
  [...'0123456789+-.eE'].map((character) => character.charCodeAt(0)),
);

/** Marks a number while it stands as text; no input can contain one. */
const MARK = `\0${randomBytes(12).toString('hex')}:`;
const MARK_TEXT = JSON.stringify(MARK).slice(1, -1);

/** Which of the two was meant is unknown. */
export class DoubledMember extends SyntaxError {
  constructor(name: string) {
    super(`The member ${JSON.stringify(name.slice(0, 40))} is there twice in one object.`);
  }
}

/**
 * JSON without loss: an integer too long for a double becomes a bigint, any other long number the text it was written
 * as, and an object with two members of one name is refused. Everything else is as `JSON.parse` has it.
 */
export function parseExactJson(text: string): unknown {
  const value = LONG_NUMBER.test(text) ? parseMarked(text) : JSON.parse(text);
  const doubled = findDoubledMember(text);
  if (doubled !== null) throw new DoubledMember(doubled);
  return value;
}

function parseMarked(text: string): unknown {
  return JSON.parse(markLongNumbers(text), (_key, value: unknown) =>
    typeof value === 'string' && value.startsWith(MARK)
      ? toNumber(value.slice(MARK.length))
      : value,
  );
}

function toNumber(digits: string): bigint | string {
  return INTEGER.test(digits) && digits.length <= LONGEST_INTEGER ? BigInt(digits) : digits;
}

/** One walk over the text, whatever is in it: no pattern that could be made to go back. */
function markLongNumbers(text: string): string {
  let marked = '';
  let taken = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
    } else if (NUMBER_CHARACTERS.has(code)) {
      const end = endOfNumber(text, at);
      const number = text.slice(at, end);
      if (number.length > LONGEST_EXACT && NUMBER.test(number)) {
        marked += `${text.slice(taken, at)}"${MARK_TEXT}${number}"`;
        taken = end;
      }
      at = end;
    } else {
      at += 1;
    }
  }
  return marked + text.slice(taken);
}

/** Of a text that is known to be JSON: there a string before a colon is the name of a member. */
function findDoubledMember(text: string): string | null {
  const around: Set<string>[] = [];
  let names = new Set<string>();
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(text, at);
      if (isBeforeColon(text, end)) {
        const name = nameIn(text, at, end);
        if (names.has(name)) return name;
        names.add(name);
      }
      at = end;
      continue;
    }
    if (code === OPENING_BRACE) {
      around.push(names);
      names = new Set();
    } else if (code === CLOSING_BRACE) {
      names = around.pop() as Set<string>;
    }
    at += 1;
  }
  return null;
}

function nameIn(text: string, start: number, end: number): string {
  const name = text.slice(start + 1, end - 1);
  return name.includes('\\') ? (JSON.parse(`"${name}"`) as string) : name;
}

function isBeforeColon(text: string, from: number): boolean {
  let at = from;
  while (BLANKS.has(text.charCodeAt(at))) at += 1;
  return text.charCodeAt(at) === COLON;
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    at += code === BACKSLASH ? 2 : 1;
  }
  return at;
}

function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && NUMBER_CHARACTERS.has(text.charCodeAt(at))) at += 1;
  return at;
}
