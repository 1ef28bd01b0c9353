import { Problem } from '../api/problem.ts';

/** Spellings that one upstream reads in one way and the next in another. */
const AMBIGUOUS = /[%;\\]|\/\/|\/\.\.?(?:\/|$)/;
const MALFORMED = /%(?![\dA-Fa-f]{2})/;
/** Encoded control characters: where a name ends for some, and goes on for others. */
const CONTROL = /%(?:[01][\dA-Fa-f]|7[Ff])/;
const UNRESERVED = /%(?:2[DdEe]|3\d|[46][1-9A-Fa-f]|[57][\dAa]|5[Ff]|7[Ee])/g;

/**
 * The ways in which an upstream may understand a path, what is needlessly encoded being decoded: with empty and dot
 * segments resolved, which is its proper name; with these as they are; and with encoded slashes and backslashes taken
 * for slashes and path parameters dropped. A plain path has one reading only.
 */
export function readingsOf(path: string): readonly [string, ...string[]] {
  if (!AMBIGUOUS.test(path)) return [path];
  if (MALFORMED.test(path)) {
    throw new Problem(
      'invalid-request',
      'the path has a % that two hexadecimal digits do not follow',
    );
  }
  if (CONTROL.test(path)) {
    throw new Problem('invalid-request', 'the path has an encoded control character');
  }
  const decoded = path.replace(UNRESERVED, (code) =>
    String.fromCharCode(Number.parseInt(code.slice(1), 16)),
  );
  const loose = decoded.replace(/%2f|%5c|\\/gi, '/').replace(/;[^/]*|%3b[^/]*/gi, '');
  return [resolved(decoded), decoded, resolved(loose)];
}

function resolved(path: string): string {
  const segments: string[] = [];
  const parts = path.split('/').slice(1);
  for (const [index, part] of parts.entries()) {
    if (part === '..') segments.pop();
    const isLast = index === parts.length - 1;
    if (part === '' || part === '.' || part === '..') {
      if (isLast) segments.push('');
    } else {
      segments.push(part);
    }
  }
  return `/${segments.join('/')}`;
}
