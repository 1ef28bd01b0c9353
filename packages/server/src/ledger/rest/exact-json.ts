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
const NUMBER_CHARACTERS = new Set(
  [...'0123456789+-.eE'].map((character) => character.charCodeAt(0)),
);

/** Marks a number while it stands as text; nobody outside can write one. */
const MARK = `\0${randomBytes(12).toString('hex')}:`;
const MARK_TEXT = JSON.stringify(MARK).slice(1, -1);

/**
 * JSON without loss: an integer too long for a double becomes a bigint, any other long number the text it was written
 * as. Everything else is as `JSON.parse` has it.
 */
export function parseExactJson(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
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
