import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';
import { StoreError } from '../../engine/errors.ts';
import { type DurationMs, type EpochMs, SECOND } from '../../engine/units.ts';

/** How long the others are waited for once a member has sent its time. */
const GRACE_MS = 300;

/**
 * The time of the member that is furthest behind, of those that answer about when the first does. etcd's API has no
 * clock, but its client port also speaks HTTP/1.1, and each answer there has a `Date`. `null`: none of the members
 * answers HTTP there, as with `--listen-client-http-urls`.
 */
export async function etcdTime(
  endpoints: readonly string[],
  timeoutMs: DurationMs,
): Promise<EpochMs | null> {
  const over = new AbortController();
  const end = () => over.abort(new Error('it took too long'));
  const timers = [setTimeout(end, timeoutMs)];
  const dates = endpoints.map(async (endpoint) => {
    const date = await dateOf(endpoint, over.signal);
    timers.push(setTimeout(end, GRACE_MS));
    return date;
  });
  const asked = await Promise.allSettled(dates);
  for (const timer of timers) clearTimeout(timer);
  const answers = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const known = answers.filter((date) => date !== null);
  if (known.length > 0) return withinSecond(Math.min(...known), Date.now());
  if (answers.length > 0) return null;
  const cause = (asked[0] as PromiseRejectedResult).reason;
  const message = `no member of etcd sent its time: ${(cause as Error).message}`;
  throw new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause, applied: 'no' });
}

/** The header has seconds only; where our own clock agrees with it, that is the better guess. */
function withinSecond(date: EpochMs, own: EpochMs): EpochMs {
  return Math.min(Math.max(own, date), date + SECOND - 1);
}

function dateOf(endpoint: string, over: AbortSignal): Promise<EpochMs | null> {
  const get = endpoint.startsWith('https:') ? getSecure : getPlain;
  return new Promise((resolve, reject) => {
    const request = get(new URL('/version', endpoint), { agent: false, signal: over });
    request.once('response', (response) => {
      response.resume();
      const date = Date.parse(response.headers.date ?? '');
      resolve(Number.isNaN(date) ? null : date);
    });
    request.once('error', (error: NodeJS.ErrnoException) => {
      // The peer does not speak HTTP/1.1.
      if (error.code?.startsWith('HPE_') === true) resolve(null);
      else reject(over.aborted ? over.reason : error);
    });
  });
}
