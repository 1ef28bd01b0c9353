import { describe, expect, it } from 'vitest';
import { problemAnswer } from '../http/problem.ts';
import { type Happened, REFUSALS, type RefusalName } from '../refusals/refusals.ts';
import { judgeAnswer, judgeFailure, type Verdict } from './verdict.ts';

function judge(
  status: number,
  body: unknown = null,
  headers: Record<string, string> = {},
): Verdict {
  const text = body === null ? '' : JSON.stringify(body);
  const all = new Headers({ 'content-type': 'application/problem+json', ...headers });
  return judgeAnswer({ status, headers: all, text }, 0);
}

const problem = (type: string, retry?: string) => ({
  type: `https://onceward.dev/problems/${type}`,
  retry,
});

describe('what an answer means', () => {
  it.each([200, 201, 202, 204, 206])('[C5] %i is done', (status) => {
    expect(judge(status).kind).toBe('done');
  });

  it.each([400, 402, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 451])(
    '[C5] %i is a refusal that stays one',
    (status) => {
      expect(judge(status).kind).toBe('refused');
    },
  );

  it.each([500, 501, 502, 504, 505])(
    '[C5] [C18] %i does not say that nothing happened',
    (status) => {
      expect(judge(status)).toMatchObject({ kind: 'transient', ran: 'unknown' });
    },
  );

  it.each([301, 302, 304, 307])('[C5] %i, which fetch did not follow, is a refusal', (status) => {
    expect(judge(status).kind).toBe('refused');
  });

  it.each([408, 425, 429])('[C5] %i is turned away before it began', (status) => {
    expect(judge(status, null, { 'retry-after': '4' })).toMatchObject({
      kind: 'transient',
      ran: 'no',
      retryAfterMs: 4_000,
    });
  });

  it.each([500, 502, 503, 504, 520, 599])(
    '[C5] %i is worth another try and may have run',
    (status) => {
      expect(judge(status)).toMatchObject({ kind: 'transient', ran: 'unknown' });
    },
  );

  it('[C5] 401 asks for a new sign-in', () => {
    expect(judge(401).kind).toBe('unauthorized');
  });

  it.each([
    ['a problem', problem('in-progress')],
    ['the envelope', { error: { code: 'CONCURRENT_REQUEST', message: 'wait' } }],
  ])('[C5] 409 that is in progress, by %s, waits', (_, body) => {
    expect(judge(409, body).kind).toBe('in_progress');
  });

  it('[C5] 409 with Retry-After waits, 409 without a word is a refusal', () => {
    expect(judge(409, null, { 'retry-after': '2' }).kind).toBe('in_progress');
    expect(judge(409).kind).toBe('refused');
  });

  it('[C5] a problem that says what it is outweighs its status', () => {
    expect(judge(409, problem('response-not-retained')).kind).toBe('done');
    expect(judge(409, problem('outcome-unknown', 'never')).kind).toBe('in_doubt');
    expect(judge(412, problem('key-expired', 'never')).kind).toBe('in_doubt');
    const away = { ...problem('store-unavailable', 'same_key'), happened: 'no' };
    expect(judge(503, away)).toMatchObject({ ran: 'no' });
    expect(judge(422, problem('payload-mismatch', 'new_key')).kind).toBe('refused');
    expect(judge(503, problem('whatever', 'never')).kind).toBe('in_doubt');
    const rolledBack = { code: 'BATCH_ROLLED_BACK', retry: 'same_key', happened: 'no' };
    expect(judge(409, { error: rolledBack })).toMatchObject({ kind: 'transient', ran: 'no' });
  });

  it('[C5] a failure that the server kept is not asked for again', () => {
    expect(judge(500, null, { 'idempotency-replayed': 'true' }).kind).toBe('refused');
  });

  it('[C5] a refusal carries the words of the server, cut to a bearable length', () => {
    expect(judge(422, { title: 'No', detail: 'not enough funds' })).toMatchObject({
      reason: 'HTTP 422: not enough funds',
    });
    const long = judge(422, { detail: 'x'.repeat(10_000) });
    expect((long as { reason: string }).reason.length).toBeLessThan(400);
  });

  it.each(['{not json', '"text"', '[]', 'null', '{"error":null}', '{"type":7}'])(
    '[C5] a body like %s does not confuse it',
    (text) => {
      const headers = new Headers({ 'content-type': 'application/json' });
      expect(judgeAnswer({ status: 400, headers, text }, 0).kind).toBe('refused');
    },
  );
});

/** What may be concluded from each word. `ran: no` and a refusal are the only ones that may lead to a new key. */
const CONCLUSIONS: Record<Happened, readonly string[]> = {
  yes: ['done'],
  no: ['refused', 'transient no', 'unauthorized'],
  unknown: ['in_progress', 'in_doubt', 'transient unknown'],
};

describe('what every refusal of a door means', () => {
  const names = Object.keys(REFUSALS) as RefusalName[];
  it.each(names.flatMap((name) => [[name, 'http'] as const, [name, 'sync'] as const]))(
    '[E16] [C14] %s under profile %s: the client concludes what the door says',
    (name, profile) => {
      const { status, headers: list, body } = problemAnswer(name, profile, { detail: 'because' });
      const headers = new Headers();
      for (let i = 0; i < list.length; i += 2) headers.append(list[i]!, list[i + 1]!);
      const text = Buffer.from(body).toString();
      const told = JSON.parse(text) as { error?: object };
      const without = JSON.stringify(told, (key, value) =>
        key === 'happened' ? undefined : value,
      );
      expect({ ...told, ...told.error }).toMatchObject({ happened: REFUSALS[name].happened });
      const conclude = (said: string) => {
        const verdict = judgeAnswer({ status, headers, text: said }, 0);
        return verdict.kind + ('ran' in verdict ? ` ${verdict.ran}` : '');
      };
      const { happened } = REFUSALS[name];
      expect(CONCLUSIONS[happened]).toContain(conclude(text));
      // Where the word is all there is, the client may be more careful, never less.
      const careful = happened === 'no' ? CONCLUSIONS.unknown : [];
      expect([...CONCLUSIONS[happened], ...careful]).toContain(conclude(without));
    },
  );

  it('[E16] [C14] the kept failure of a handler that threw is in doubt, not undone', () => {
    const headers = { 'idempotency-replayed': 'true' };
    const kept = { ...problem('operation-failed', 'never'), happened: 'unknown' };
    expect(judge(500, kept, headers).kind).toBe('in_doubt');
    expect(judge(402, null, headers).kind).toBe('refused');
  });

  it('[C14] a doubt that is to be known soon is asked for again under the same key', () => {
    const verdict = judge(409, problem('outcome-unknown', 'same_key'), { 'retry-after': '1' });
    expect(verdict).toMatchObject({ kind: 'transient', ran: 'unknown', retryAfterMs: 1_000 });
  });

  it('[E16] only what did not happen may use a new key', () => {
    for (const { retry, happened } of Object.values(REFUSALS)) {
      if (retry === 'new_key') expect(happened).toBe('no');
    }
  });
});

describe('what a failed fetch means', () => {
  const failure = (code: string) =>
    new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });

  it.each(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'])('[C5] %s: nothing was sent', (code) => {
    expect(judgeFailure(failure(code))).toMatchObject({ kind: 'unreachable', ran: 'no' });
  });

  it.each(['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID', 'DEPTH_ZERO_SELF_SIGNED_CERT'])(
    '[C5] %s: TLS failed, nothing was sent, and the reason says so',
    (code) => {
      expect(judgeFailure(failure(code))).toEqual({
        kind: 'unreachable',
        reason: code,
        ran: 'no',
      });
    },
  );

  it.each([
    failure('ECONNRESET'),
    failure('UND_ERR_SOCKET'),
    new TypeError('Failed to fetch'),
    'odd',
  ])('[C5] any other failure may have reached the server', (error) => {
    expect(judgeFailure(error)).toMatchObject({ kind: 'unreachable', ran: 'unknown' });
  });

  it('[C5] a timeout is no answer, an abort by the caller is the end', () => {
    const timeout = new DOMException('late', 'TimeoutError');
    expect(judgeFailure(timeout)).toMatchObject({ kind: 'unreachable', ran: 'unknown' });
    expect(judgeFailure(timeout, AbortSignal.abort()).kind).toBe('aborted');
  });
});
