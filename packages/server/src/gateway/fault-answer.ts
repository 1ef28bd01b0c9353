import { type HttpAnswer, PROBLEM_TYPE_PREFIX } from 'onceward/http';
import type { UpstreamFault } from '../observability/metrics.ts';

interface Kind {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
}

const KINDS = {
  refused: {
    status: 502,
    title: 'The upstream cannot be reached',
    detail: 'the request was not sent; retry with the same key',
  },
  reset: {
    status: 502,
    title: 'The upstream broke off',
    detail: 'the upstream closed the connection before it had answered',
  },
  timeout: {
    status: 504,
    title: 'The upstream did not answer in time',
    detail: 'the upstream had the request and stayed silent',
  },
} as const satisfies Record<UpstreamFault, Kind>;

/** What the client gets when the upstream gave nothing. `inDoubt`: the record now waits for a verdict. */
export function faultAnswer(fault: UpstreamFault, inDoubt: boolean): HttpAnswer {
  const { status, title, detail } = KINDS[fault];
  const after = inDoubt
    ? `${detail}; whether it acted is not known, and retries are refused until that is resolved`
    : detail;
  const body = {
    type: `${PROBLEM_TYPE_PREFIX}upstream-${fault}`,
    title,
    status,
    detail: after,
    retry: inDoubt ? 'never' : 'same_key',
  };
  const headers = ['content-type', 'application/problem+json', 'cache-control', 'no-store'];
  return { status, headers, body: Buffer.from(JSON.stringify(body)) };
}
