import type { Finding, Rule } from './rule.ts';
import { type Found, lineAt, type ObjectLiteral, type SourceFile } from './source-file.ts';

const ENGINE = /^packages\/onceward\/src\/engine\//;
const CODE = /\.(ts|tsx|mjs)$/;
const TEST = /\.test\.ts$/;
const NOT_SHIPPED = /\.(test|fixture)\.ts$/;
const GENERATED = /(_pb|\.(sql|lua))\.ts$/;
/** These files spell out what is forbidden. */
const RULES = /^test\/tidy\//;

const MAX_LINES = 500;
/** The formatter holds code to 100; this holds what it leaves alone, which is comments. */
const MAX_COLUMNS = 120;
const MIN_REASON_CHARS = 10;

const BANNED_NAMES = new Set([
  'utils',
  'util',
  'helpers',
  'helper',
  'types',
  'common',
  'misc',
  'lib',
]);

/** What the engine may learn through `World` and `Platform` only. */
const WORLDLY = new RegExp(
  [
    'Date\\.now|new Date',
    'Math\\.random|crypto',
    'setTimeout|setInterval|setImmediate|queueMicrotask|performance',
    'process|console|require|globalThis',
  ]
    .map((names) => `(?<![.\\w])(?:${names})(?!\\w)`)
    .join('|'),
  'g',
);

/** A new record has this field, and nothing else has; a changed copy has one of these. */
const NEW_RECORD = 'createdAt';
const CHANGED_RECORD = /^(owner|steps|leaseUntil|keepUntil|settledAt|onLapse|since)$/;
const RECORD_MAKERS = /\/(transitions|record-codec)\.ts$/;

export const textRules: readonly Rule[] = [
  {
    name: 'code can be parsed',
    check: (file) => (file.fault === null ? [] : [{ at: 0, why: file.fault }]),
  },
  {
    name: 'the engine learns of the world through its arguments only',
    check: (file) =>
      ENGINE.test(file.path) && !TEST.test(file.path)
        ? matches(file.code, WORLDLY, (name) => `the engine may not use ${name}`)
        : [],
  },
  {
    name: 'the engine makes records in its transitions only',
    check: (file) =>
      ENGINE.test(file.path) && !NOT_SHIPPED.test(file.path) && !RECORD_MAKERS.test(file.path)
        ? file.objects.filter(isRecord).map(({ at }) => ({ at, why: 'make it in transitions.ts' }))
        : [],
  },
  {
    name: 'files and folders say what is in them',
    check(file) {
      const bad = file.path.split('/').find((part) => BANNED_NAMES.has(part.split('.')[0] ?? ''));
      return bad === undefined ? [] : [{ at: 0, why: `${bad} says nothing of what is in it` }];
    },
  },
  {
    name: 'a file can be read in one sitting',
    check(file) {
      if (!CODE.test(file.path) || GENERATED.test(file.path)) return [];
      const lines = file.text.trimEnd().split('\n').length;
      if (lines <= MAX_LINES) return [];
      return [{ at: file.text.length - 1, why: `${lines} lines, the limit is ${MAX_LINES}` }];
    },
  },
  { name: 'a line fits the screen', check: findLongLines },
  {
    name: 'no test runs alone',
    check: (file) => matches(file.code, /\.only\b/g, () => '.only leaves the other tests out'),
  },
  { name: 'a skipped test says why', check: findBareSkips },
  {
    name: 'nothing is left for later in a comment',
    check: (file) =>
      inProse(file, /\b(TODO|FIXME|XXX|HACK)\b/g, (word) => `${word}: do it, or file it`),
  },
  {
    name: 'the compiler is not silenced without a reason',
    check: (file) => [
      ...file.anyAt.map((at) => ({ at, why: 'any turns the compiler off: say what it is' })),
      ...inComments(file, /@ts-(ignore|nocheck)\b/g, (word) => `${word} hides every error`),
      ...file.comments.flatMap(findBareExpectError),
    ],
  },
  {
    name: 'no file knows the machine it was written on',
    check: (file) =>
      RULES.test(file.path)
        ? []
        : [
            ...matches(
              file.text,
              /(?<![\w.}*])\/(work|root|home)\//g,
              (path) => `${path} is a machine's own path`,
            ),
            ...matches(
              file.text,
              /\b(registry\.[\w-]+\.\w+|npm\.pkg\.github\.com)\b/g,
              (host) => `${host} is a registry's host`,
            ),
          ],
  },
  {
    name: 'the project speaks of itself alone',
    check: (file) =>
      RULES.test(file.path)
        ? []
        : inProse(
            file,
            /(?<!user-)\bagents?\b|\b(this|earlier|previous|next|last) session\b/gi,
            (word) => `"${word}" is about how it was made`,
          ),
  },
  {
    name: "text uses the field's words",
    check: (file) =>
      RULES.test(file.path)
        ? []
        : matches(
            file.text,
            /\b(whoever|lest|how-manieth)\b/gi,
            (word) => `"${word}": name the caller, client or process, or say "so that"`,
          ),
  },
];

function isRecord({ keys, hasSpread }: ObjectLiteral): boolean {
  return keys.includes(NEW_RECORD) || (hasSpread && keys.some((key) => CHANGED_RECORD.test(key)));
}

function findLongLines(file: SourceFile): Finding[] {
  if (!CODE.test(file.path) || GENERATED.test(file.path)) return [];
  const findings: Finding[] = [];
  let at = 0;
  for (const line of file.text.split('\n')) {
    const end = at + line.length;
    const inStrings = file.strings
      .filter((string) => string.start < end && string.end > at)
      .reduce((sum, s) => sum + Math.min(s.end, end) - Math.max(s.start, at), 0);
    const columns = line.length - inStrings;
    if (columns > MAX_COLUMNS) {
      findings.push({ at, why: `${columns} columns, the limit is ${MAX_COLUMNS}` });
    }
    at = end + 1;
  }
  return findings;
}

function findBareSkips(file: SourceFile): Finding[] {
  if (!TEST.test(file.path)) return [];
  const commented = new Set<number>();
  for (const comment of file.comments) {
    if (comment.value.trim().length < MIN_REASON_CHARS) continue;
    const last = lineAt(file.text, comment.end);
    commented.add(last).add(last + 1);
  }
  const skips = matches(
    file.code,
    /\b(it|test|describe|suite)\b[\w.]*\.(skip|skipIf|runIf|todo|fails)\b|\bcontext\.skip\b/g,
    (call) => `${call} needs its reason in a comment on its line or the line above`,
  );
  return skips.filter(({ at }) => !commented.has(lineAt(file.text, at)));
}

function findBareExpectError(comment: Found): Finding[] {
  const reason = /@ts-expect-error\b[\s:–-]*(.*)/s.exec(comment.value)?.[1];
  if (reason === undefined || reason.trim().length >= MIN_REASON_CHARS) return [];
  return [{ at: comment.start, why: '@ts-expect-error needs a reason after it' }];
}

/** Comments of code; the whole of a document. */
function inProse(file: SourceFile, pattern: RegExp, why: (match: string) => string): Finding[] {
  return file.path.endsWith('.md')
    ? matches(file.text, pattern, why)
    : inComments(file, pattern, why);
}

function inComments(file: SourceFile, pattern: RegExp, why: (match: string) => string): Finding[] {
  return file.comments.flatMap((comment) =>
    matches(file.text.slice(comment.start, comment.end), pattern, why).map((finding) => ({
      at: comment.start + finding.at,
      why: finding.why,
    })),
  );
}

function matches(text: string, pattern: RegExp, why: (match: string) => string): Finding[] {
  return [...text.matchAll(pattern)].map((match) => ({ at: match.index, why: why(match[0]) }));
}
