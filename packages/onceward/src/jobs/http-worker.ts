import { OutcomeUnknown } from '../engine/run/attempt.ts';
import { type DurationMs, MIB, SECOND } from '../engine/units.ts';
import { type HandledJob, type JobContext, JobFailed, type Rerun } from './job-type.ts';
import { checkSecret, SIGNATURE_HEADER, signBody } from './signature.ts';

export interface HttpWorkerOptions {
  readonly type: string;
  /** Where the worker takes jobs, by POST. */
  readonly url: URL;
  /** Shared with the worker, which checks `Onceward-Signature` with it. */
  readonly secret: string;
  /** `safe` when the worker dedupes on `Idempotency-Key`, or does no harm by working twice. */
  readonly rerun: Rerun;
  readonly attempts?: number;
  readonly backoffMs?: DurationMs;
  /** How long one run may take. */
  readonly timeoutMs?: DurationMs;
  readonly parse?: (payload: unknown) => unknown;
}

/** No more of a result is read; one that long is not kept. */
const LONGEST_RESULT = MIB;
/** The worker has not taken the job up and asks for it to be sent again. */
const SENT_TOO_SOON = new Set([408, 425, 429]);
/** Sent by proxies in front of the worker: the outcome is unknown. */
const HEARD_NOTHING = new Set([502, 504]);

/**
 * A kind of job that another program does, in whatever language. It is sent
 * `{"job_id","type","attempt","fence","payload"}`, signed, and answers 2xx with its result, as JSON or as any text. Any
 * other 4xx fails the job; 5xx and silence mean another run, where the type allows it.
 *
 * The key in `Idempotency-Key` is the same in every run and the fence rises: a worker that keeps either has the job
 * done once.
 */
export function httpWorker(options: HttpWorkerOptions): HandledJob<unknown, unknown> {
  checkSecret(`the secret of the worker for ${options.type}`, options.secret);
  const { type, rerun, attempts, backoffMs } = options;
  return {
    type,
    rerun,
    ...(attempts === undefined ? {} : { attempts }),
    ...(backoffMs === undefined ? {} : { backoffMs }),
    parse: options.parse ?? ((payload) => payload),
    run: (payload, context) => callWorker(options, payload, context),
  };
}

async function callWorker(
  options: HttpWorkerOptions,
  payload: unknown,
  context: JobContext,
): Promise<unknown> {
  const { jobId, type, attempt, fence, derivedKey } = context;
  const body = JSON.stringify({ job_id: jobId, type, attempt, fence, payload });
  const timeout = AbortSignal.timeout(options.timeoutMs ?? 60 * SECOND);
  let response: Response;
  let text: string;
  try {
    response = await fetch(options.url, {
      method: 'POST',
      redirect: 'error',
      signal: AbortSignal.any([timeout, context.signal]),
      headers: {
        'content-type': 'application/json',
        'idempotency-key': derivedKey,
        'onceward-fence': String(fence),
        [SIGNATURE_HEADER]: signBody(options.secret, body, Date.now()),
      },
      body,
    });
    text = await readBounded(response);
  } catch (error) {
    throw brokenOff(options, error);
  }
  const { status } = response;
  if (response.ok) return resultOf(text);
  const said = `the worker answered ${status}${text === '' ? '' : `: ${text.slice(0, 500)}`}`;
  if (options.rerun === 'never' && HEARD_NOTHING.has(status)) throw new OutcomeUnknown(said);
  const isRefusal = status < 500 && !SENT_TOO_SOON.has(status);
  throw isRefusal ? new JobFailed(said) : new Error(said);
}

/** The job is done, whatever the worker says about it: text that is no JSON is a result as well. */
function resultOf(text: string): unknown {
  if (text === '') return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** The request may have arrived. Where it must not run twice, its outcome is unknown. */
function brokenOff(options: HttpWorkerOptions, cause: unknown): Error {
  const { code } = ((cause as Error).cause ?? {}) as { code?: string };
  const why = `the worker at ${options.url.origin} broke off: ${code ?? (cause as Error).message}`;
  const neverArrived = code === 'ECONNREFUSED' || code === 'ENOTFOUND';
  if (options.rerun === 'never' && !neverArrived) return new OutcomeUnknown(why, { cause });
  return new Error(why, { cause });
}

async function readBounded(response: Response): Promise<string> {
  if (response.body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > LONGEST_RESULT) break;
  }
  return text;
}
