/** A JSON text in the one spelling that equal values share, or why it has none. */
export type CanonicalBody =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: string };

const MAX_DEPTH = 200;

/**
 * Reads JSON itself instead of through `JSON.parse`, which drops all but the last of repeated members and turns
 * numbers into doubles: 12345678901234567890 and 12345678901234567891 would become one request. Here a repeated
 * member is refused, and numbers are compared as decimals, so that 1.0 equals 1 and nothing else is merged.
 */
export function canonicalBody(bytes: Uint8Array): CanonicalBody {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const reader = new Reader(text);
    const canonical = reader.value(0);
    reader.end();
    return { ok: true, text: canonical };
  } catch (error) {
    if (error instanceof NotCanonical) return { ok: false, reason: error.message };
    if (error instanceof TypeError) return { ok: false, reason: 'the body is not valid UTF-8' };
    throw error;
  }
}

class NotCanonical extends Error {}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(depth: number): string {
    if (depth > MAX_DEPTH) {
      throw new NotCanonical(`the body is nested deeper than ${MAX_DEPTH} levels`);
    }
    this.#skipSpace();
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#array(depth);
      case '"':
        return this.#string();
      default:
        return this.#word();
    }
  }

  end(): void {
    this.#skipSpace();
    if (this.#at !== this.#text.length) this.#fail();
  }

  #object(depth: number): string {
    const members = new Map<string, string>();
    this.#at += 1;
    for (let more = !this.#accept('}'); more; ) {
      this.#skipSpace();
      if (this.#text[this.#at] !== '"') this.#fail();
      const at = this.#at;
      const name = this.#string();
      if (members.has(name)) {
        throw new NotCanonical(`the body repeats a member name at character ${at}`);
      }
      if (!this.#accept(':')) this.#fail();
      members.set(name, this.value(depth + 1));
      more = this.#accept(',');
      if (!more && !this.#accept('}')) this.#fail();
    }
    const names = [...members.keys()].sort();
    return `{${names.map((name) => `${name}:${members.get(name)}`).join(',')}}`;
  }

  #array(depth: number): string {
    const items: string[] = [];
    this.#at += 1;
    for (let more = !this.#accept(']'); more; ) {
      items.push(this.value(depth + 1));
      more = this.#accept(',');
      if (!more && !this.#accept(']')) this.#fail();
    }
    return `[${items.join(',')}]`;
  }

  /** The literal, re-spelled, so that an escape and the character it stands for are the same. */
  #string(): string {
    const literal = this.#match(/"(?:[^"\\]|\\.)*"/y);
    try {
      return JSON.stringify(JSON.parse(literal));
    } catch {
      return this.#fail();
    }
  }

  #word(): string {
    const word = this.#match(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    return /^[tfn]/.test(word) ? word : decimal(word);
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) return this.#fail();
    this.#at += found.length;
    return found;
  }

  #accept(character: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #skipSpace(): void {
    while (' \t\n\r'.includes(this.#text[this.#at] ?? 'x')) this.#at += 1;
  }

  #fail(): never {
    throw new NotCanonical(`the body is not valid JSON at character ${this.#at}`);
  }
}

/** Digits without zeros at either end, and the power of ten of the last one: exact, however long the number is. */
function decimal(literal: string): string {
  const [mantissa = '', power = '0'] = literal.toLowerCase().split('e');
  const sign = mantissa.startsWith('-') ? '-' : '';
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const all = (whole + fraction).replace(/^0+/, '');
  if (all === '') return '0';
  const digits = all.replace(/0+$/, '');
  if (power.length > 12) {
    throw new NotCanonical('the body holds a number whose exponent has more than 12 digits');
  }
  const exponent = Number(power) - fraction.length + (all.length - digits.length);
  return `${sign}${digits}e${exponent}`;
}
