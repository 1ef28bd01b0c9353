import { readFileSync } from 'node:fs';
import { OncewardError, StoreError } from 'onceward';
import { REFUSALS } from 'onceward/http';
import { describe, expect, it } from 'vitest';
import { judgeAnswer } from '../../../onceward/src/client/verdict.ts';
import { PROBLEM_KINDS, Problem, type ProblemBody, problemOf } from './problem.ts';

/** What may be concluded from each word, as the client has it. */
const CONCLUSIONS = {
  yes: ['done'],
  no: ['refused', 'transient no', 'unauthorized'],
  unknown: ['in_progress', 'in_doubt', 'transient unknown'],
} as const;

function conclude(problem: Problem, body: unknown): string {
  const headers = new Headers({ 'content-type': 'application/problem+json' });
  const { status } = problem;
  const verdict = judgeAnswer({ status, headers, text: JSON.stringify(body) }, 0);
  return verdict.kind + ('ran' in verdict ? ` ${verdict.ran}` : '');
}

describe('every problem of the server', () => {
  it.each(PROBLEM_KINDS)(
    '[E16] %s says what became of the effect, and the client concludes the same',
    (kind) => {
      const problem = new Problem(kind, 'because');
      const { happened, retry } = problem.toBody();
      expect(CONCLUSIONS[happened]).toContain(conclude(problem, problem.toBody()));
      const envelope = { error: problem.toEnvelope() };
      expect(envelope.error).toMatchObject({ happened, retry });
      expect(CONCLUSIONS[happened]).toContain(conclude(problem, envelope));
      if (retry === 'new_key') expect(happened).toBe('no');
    },
  );

  it('[E16] a word that doors have too means the same', () => {
    for (const [name, { status, retry, happened }] of Object.entries(REFUSALS)) {
      const kind = PROBLEM_KINDS.find((one) => one === name);
      if (kind === undefined) continue;
      expect(new Problem(kind, 'because').toBody()).toMatchObject({ status, retry, happened });
    }
  });

  it('[E16] a store that failed may have written, unless it says that it has not', () => {
    const failed = (error: OncewardError) => problemOf(error)?.toBody().happened;
    const code = 'ONCE_STORE_UNAVAILABLE';
    expect(failed(new StoreError(code, 'gone'))).toBe('unknown');
    expect(failed(new OncewardError(code, 'gone'))).toBe('unknown');
    expect(failed(new StoreError(code, 'gone', { applied: 'no' }))).toBe('no');
  });
});

/** The rows of a page that begin with one of our words: name, status, retry, happened. */
function documented(): string[] {
  const page = readFileSync(new URL('../../../../docs/reference/http.md', import.meta.url), 'utf8');
  const row = /^\| `([a-z-]+)` \| (\d{3})[^|]*\| `(\w+)` \| `(no|yes|unknown)` \|/gm;
  return [...page.matchAll(row)].map(([, ...cells]) => cells.join(' '));
}

it('[E16] the page of refusals says of each what its table says', () => {
  const lines = (kinds: [string, { status: number; retry: string; happened: string }][]) =>
    kinds.map(([name, { status, retry, happened }]) => `${name} ${status} ${retry} ${happened}`);
  const ofDoors = Object.entries(REFUSALS).filter(([name]) => !IDENTITY.has(name));
  const ofServer = PROBLEM_KINDS.filter((kind) => !TOLD_WITH_DOORS.has(kind)).map(
    (kind) => [kind, new Problem(kind, '').toBody()] as [string, ProblemBody],
  );
  expect(documented().sort()).toEqual([...lines(ofDoors), ...lines(ofServer)].sort());
});

/** These stand in a table of their own, since nothing has run with any of them. */
const IDENTITY = new Set([
  'scope-unknown',
  'unauthorized',
  'forbidden',
  'identity-unusable',
  'identity-unavailable',
]);
const TOLD_WITH_DOORS = new Set([
  'first-sent-invalid',
  'outcome-unknown',
  'body-too-large',
  'store-unavailable',
]);
