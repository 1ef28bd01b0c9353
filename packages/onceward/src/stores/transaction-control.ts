import { StoreError } from '../engine/errors.ts';

/** One token: space, comment, quoted text (PostgreSQL's escapes and dollars included), word, or any other sign. */
const TOKEN =
  /\s+|--[^\n]*|\/\*.*?\*\/|e'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([a-z_]\w*)?\$.*?\$\1\$|[\w$]+|./gisy;
const WORD = /^[a-z_]\w*$/i;
const SUSPECT = /\b(?:begin|start|commit|end|rollback|abort|prepare)\b/i;

/**
 * The words of a statement that begins or ends a transaction, or `null` if the text has none. Savepoints are none. What
 * follows a CREATE is not parsed: bodies of functions and triggers have a BEGIN and an END of another kind.
 */
export function findTransactionControl(text: string): string | null {
  if (!SUSPECT.test(text)) return null;
  for (const words of openingWords(text)) {
    if (words[0] === 'create') return null;
    if (controlsTransaction(words)) return words.join(' ').toUpperCase();
  }
  return null;
}

/** The first three words of each statement. */
function* openingWords(text: string): Iterable<readonly string[]> {
  let words: string[] = [];
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === ';') {
      yield words;
      words = [];
    } else if (words.length < 3 && WORD.test(token)) {
      words.push(token.toLowerCase());
    }
  }
  yield words;
}

function controlsTransaction([first, second, third]: readonly string[]): boolean {
  switch (first) {
    case 'begin':
    case 'commit':
    case 'end':
    case 'abort':
      return true;
    case 'start':
    case 'prepare':
      return second === 'transaction';
    case 'rollback':
      return second !== 'to' && third !== 'to';
    default:
      return false;
  }
}

/** Refused before it is sent: nothing has happened, and the transaction is as it was. */
export function refuseControl(statement: string): StoreError {
  return new StoreError(
    'ONCE_INVALID_INPUT',
    `${statement} was refused: this connection is inside the transaction that also writes the idempotency record, and ` +
      'would end it. Use a savepoint, or run the statements of the inner transaction directly',
    { applied: 'no' },
  );
}
