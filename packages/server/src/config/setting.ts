import { z } from 'zod';

/** One thing that can be set. It has the same name in the environment and in the file; flags are its kebab form. */
export interface Setting<T> {
  readonly name: string;
  /** `--port`, without the dashes. Absent: there is no flag for it. */
  readonly flag?: string;
  readonly kind: Kind<NonNullable<T>>;
  /** `null`: unset unless someone sets it; `about` says what that means. */
  readonly initial: T;
  /** Never printed, not even when it is wrong. */
  readonly secret?: boolean;
  readonly about: string;
}

/** How a value is written, in a schema for the program and in words for people. */
export interface Kind<T> {
  /** Completes "it must be …". */
  readonly expected: string;
  readonly schema: z.ZodType<T>;
}

/** The environment knows only text; a file knows numbers too. Both are read alike. */
const number = z.union([
  z.number(),
  z
    .string()
    .regex(/^-?\d{1,15}(\.\d{1,9})?$/)
    .transform(Number),
]);

export function wholeNumber(least: number, most: number): Kind<number> {
  return {
    expected: `a whole number from ${least} to ${most}`,
    schema: number.pipe(z.int().min(least).max(most)),
  };
}

export function fraction(least: number, most: number): Kind<number> {
  return {
    expected: `a number from ${least} to ${most}`,
    schema: number.pipe(z.number().min(least).max(most)),
  };
}

/** A length of time as people write it. The code that uses it multiplies by a thousand, once. */
export function seconds(least: number, most: number): Kind<number> {
  return {
    expected: `a number of seconds from ${least} to ${most}`,
    schema: number.pipe(z.number().min(least).max(most)),
  };
}

export function yesOrNo(): Kind<boolean> {
  const words = z.enum(['true', 'false', '1', '0', 'yes', 'no', 'on', 'off']);
  return {
    expected: 'true or false',
    schema: z.union([
      z.boolean(),
      z
        .string()
        .toLowerCase()
        .pipe(words)
        .transform((word) => ['true', '1', 'yes', 'on'].includes(word)),
    ]),
  };
}

export function oneOf<const T extends string>(...allowed: readonly [T, ...T[]]): Kind<T> {
  return { expected: `one of ${allowed.join(', ')}`, schema: z.enum(allowed) };
}

export function text(pattern: RegExp, expected: string): Kind<string> {
  return { expected, schema: z.string().regex(pattern) };
}

/** Several values, separated by commas where only text is possible. */
export function list(item: RegExp, expected: string): Kind<readonly string[]> {
  const items = z.array(z.string().regex(item)).max(1_000);
  const separated = z.string().transform((value) =>
    value
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  );
  return { expected, schema: z.union([items, separated.pipe(items)]) };
}

/** An address with nothing but scheme, host, port and perhaps a path before every request's own. */
export function httpUrl(): Kind<URL> {
  return {
    expected: 'a URL such as http://127.0.0.1:3000',
    schema: z
      .string()
      .refine(isPlainHttpUrl)
      .transform((value) => new URL(value)),
  };
}

function isPlainHttpUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, search, hash, username, password } = new URL(value);
  const isBare = search === '' && hash === '' && username === '' && password === '';
  return isBare && (protocol === 'http:' || protocol === 'https:');
}
