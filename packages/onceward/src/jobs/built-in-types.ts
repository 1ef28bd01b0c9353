import { defineJob, JobFailed, type JobType } from './job-type.ts';

/** Kinds of job to try things out with. */
export const builtInTypes: readonly JobType[] = [
  /** Returns its payload. */
  defineJob({
    type: 'echo',
    rerun: 'safe',
    parse: (payload) => payload,
    run: async (payload) => payload,
  }),
  /** Takes `ms` milliseconds, an hour at most. */
  defineJob({ type: 'sleep', rerun: 'safe', parse: parseSleep, run: sleepUntilTold }),
  /** Fails each time, with the message it was given. */
  defineJob({
    type: 'fail',
    rerun: 'safe',
    parse: parseFail,
    async run({ message, final }) {
      throw final ? new JobFailed(message) : new Error(message);
    },
    backoffMs: 100,
  }),
];

const LONGEST_SLEEP_MS = 3_600_000;

function parseSleep(payload: unknown): { readonly ms: number } {
  const ms = (payload as { ms?: unknown } | null)?.ms;
  if (typeof ms === 'number' && ms >= 0 && ms <= LONGEST_SLEEP_MS) return { ms };
  throw new Error(`payload.ms must be a number of milliseconds from 0 to ${LONGEST_SLEEP_MS}`);
}

function sleepUntilTold(
  { ms }: { readonly ms: number },
  { signal }: { readonly signal: AbortSignal },
): Promise<{ slept_ms: number }> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve({ slept_ms: ms }), ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

function parseFail(payload: unknown): { readonly message: string; readonly final: boolean } {
  const { message = 'failed as asked', final = false } = (payload ?? {}) as {
    message?: unknown;
    final?: unknown;
  };
  if (typeof message !== 'string') throw new Error('payload.message must be a string');
  return { message, final: final === true };
}
