import { OncewardError } from './errors.ts';

/** Refuses members that nobody reads: a misspelt option would otherwise pass in silence. */
export function refuseUnknown(where: string, options: object, known: object): void {
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    const close = nearestName(name, Object.keys(known));
    const advice = close === null ? `it knows ${Object.keys(known).join(', ')}` : `${close} is`;
    throw new OncewardError(
      'ONCE_INVALID_CONFIG',
      `${name} is not an option of ${where}; ${advice}`,
    );
  }
}

/** The candidate that a typing mistake most likely meant, or `null` when none is close. */
export function nearestName(word: string, candidates: readonly string[]): string | null {
  let best: string | null = null;
  let least = Math.max(2, Math.floor(word.length / 4)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

/** Levenshtein's. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
