import { styleText } from 'node:util';
import Table from 'cli-table3';

/** Writes what a command was asked for. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** The same thing for scripts, or for people. */
export function report(options: { readonly json?: unknown }, value: unknown, text: () => string) {
  print(options.json === true ? JSON.stringify(value) : text());
}

const NO_BORDERS = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const drawn = new Table({
    head: head.map((title) => styled('bold', title)),
    chars: NO_BORDERS,
    style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
  });
  for (const row of rows) drawn.push(row.map(printable));
  return drawn
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Colours are for terminals; what goes into a file or a pipe is plain. */
export function styled(style: 'bold' | 'red' | 'yellow' | 'green', text: string): string {
  return process.stdout.isTTY ? styleText(style, text) : text;
}

/** Scopes and keys come from callers: what they hold must not steer the terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, '?');
}

export function time(at: number | undefined | null): string {
  return at === undefined || at === null ? '' : new Date(at).toISOString();
}
