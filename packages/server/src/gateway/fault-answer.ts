import { type HttpAnswer, problemAnswer } from 'onceward/http';
import type { Settings } from '../config/settings.ts';
import type { UpstreamFault } from '../observability/metrics.ts';

const DETAILS = {
  refused: 'the request was not sent; retry with the same key',
  reset: 'the upstream closed the connection before it had answered',
  timeout: 'the upstream had the request and stayed silent',
} as const satisfies Record<UpstreamFault, string>;

/** What the client gets when the upstream gave nothing. `inDoubt`: the record now waits for a verdict. */
export function faultAnswer(
  fault: UpstreamFault,
  inDoubt: boolean,
  profile: Settings['profile'],
): HttpAnswer {
  const detail = inDoubt
    ? `${DETAILS[fault]}; whether it acted is not known, and retries are refused until that is resolved`
    : DETAILS[fault];
  const answer = problemAnswer(`upstream-${fault}`, profile, { detail });
  // The sender marks it as no replay or not: requests without a key get one too.
  const headers = answer.headers.filter(
    (_, at, all) => all[at - (at % 2)] !== 'idempotency-replayed',
  );
  return { ...answer, headers };
}
