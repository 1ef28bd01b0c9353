import { OncewardError } from '../../engine/errors.ts';
import type { DurationMs, EpochMs } from '../../engine/units.ts';
import { parseJobKey } from '../../keys/job-key.ts';
import type { JobsPort } from '../jobs-port.ts';
import { checkSecret, signedDigest } from '../signature.ts';
import { type Answer, isPlainKey, refused, type Submission } from '../submission.ts';
import type { JobWindows } from '../windows.ts';
import {
  type AnswerLine,
  type CallAnswers,
  type ManagerCall,
  MOST_IN_BATCH,
  type SubmissionBatch,
} from './manager-protocol.ts';

export interface ManagerEndpointOptions {
  readonly jobs: JobsPort;
  readonly windows: JobWindows;
  /** Shared by the gates and managers that trust each other. */
  readonly secret: string;
  /** Says why a tenant that another data centre sends here is not at home here; `null` when it is. */
  readonly refuseHome?: (tenant: string, version: number) => Answer | null;
  /** Called with the error behind a submission that was answered as unavailable. */
  readonly onFault?: (error: unknown) => void;
}

/** The manager's side of the protocol, for whatever serves HTTP: text in, text out. */
export class ManagerEndpoint {
  readonly #options: ManagerEndpointOptions;

  constructor(options: ManagerEndpointOptions) {
    checkSecret('the secret of gates and managers', options.secret);
    this.#options = options;
  }

  /**
   * To be called before the body is read: the digest that it must have, as `digestOf` makes it. `null`: the sender
   * is no gate of ours.
   */
  expectedDigest(signature: string | undefined, now: EpochMs): string | null {
    return signedDigest(this.#options.secret, signature, now);
  }

  /** Calls `writeLine` for each submission of the batch, in the order in which they are answered. */
  async answerSubmissions(body: string, writeLine: (line: string) => void): Promise<void> {
    const { homes, submissions } = readBatch(body);
    await Promise.all(
      submissions.map(async ([submission, waitMs], i) => {
        const line: AnswerLine = [i, await this.#submit(submission, waitMs, homes)];
        writeLine(`${JSON.stringify(line)}\n`);
      }),
    );
  }

  async answerCall(body: string): Promise<CallAnswers[keyof CallAnswers]> {
    const { jobs, windows } = this.#options;
    const call = JSON.parse(body) as ManagerCall;
    switch (call.call) {
      case 'windows':
        return windows;
      case 'find':
        return jobs.find(call.tenant, call.jobId);
      case 'list':
        return jobs.list(call.query);
      case 'cancel':
        return jobs.cancel(call.tenant, call.jobId);
      default:
        throw new OncewardError('ONCE_INVALID_INPUT', 'the manager knows no such call');
    }
  }

  async #submit(submission: Submission, waitMs: DurationMs, homes: number | null): Promise<Answer> {
    if (homes !== null) {
      const away = this.#options.refuseHome?.(submission.tenant, homes) ?? null;
      if (away !== null) return away;
    }
    try {
      return await this.#options.jobs.submit(submission, waitMs);
    } catch (error) {
      this.#options.onFault?.(error);
      return refused('unavailable', { retryAfterMs: 1_000 });
    }
  }
}

function readBatch(body: string): SubmissionBatch {
  const batch = JSON.parse(body) as Partial<SubmissionBatch> | null;
  const { homes = null, submissions } = batch ?? {};
  if (!Array.isArray(submissions) || submissions.length > MOST_IN_BATCH) {
    throw new OncewardError(
      'ONCE_INVALID_INPUT',
      `a batch holds 1 to ${MOST_IN_BATCH} submissions`,
    );
  }
  for (const [submission] of submissions as SubmissionBatch['submissions']) {
    const { tenant, key, type, payload, fingerprint, firstSentAt = 0 } = submission;
    const isText = [tenant, key, type, payload, fingerprint].every(isString);
    if (!isText || !Number.isFinite(firstSentAt) || !(isPlainKey(key) || parseJobKey(key).ok)) {
      throw new OncewardError('ONCE_INVALID_INPUT', 'a submission of the batch is malformed');
    }
  }
  return { homes, submissions };
}

function isString(part: unknown): boolean {
  return typeof part === 'string';
}
