import {
  Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import { request as httpsRequest, Agent as SecureAgent } from 'node:https';
import { urlToHttpOptions } from 'node:url';
import { OncewardError } from '../../engine/errors.ts';
import { type DurationMs, MIB, SECOND } from '../../engine/units.ts';
import type { CancelResult, JobList, JobQuery, JobsPort, JobView } from '../jobs-port.ts';
import { checkSecret, SIGNATURE_HEADER, signDigest } from '../signature.ts';
import type { Answer, Submission } from '../submission.ts';
import type { JobWindows } from '../windows.ts';
import {
  type AnswerLine,
  CALLS_PATH,
  type CallAnswers,
  type ManagerCall,
  MOST_IN_BATCH,
  PULSE_MS,
  SUBMISSIONS_PATH,
  type SubmissionBatch,
} from './manager-protocol.ts';

export interface ManagerLinkOptions {
  readonly url: URL;
  readonly secret: string;
  /** A manager that stays silent for this long is taken for dead. It sends a heartbeat every second. */
  readonly silenceMs?: DurationMs;
  /** The version of the table of homes, for links between data centres. */
  readonly homes?: () => number;
}

/** The manager could not be asked, or fell silent. Whether it took the submission in, its key will find out. */
export class LinkDown extends OncewardError {
  constructor(url: URL, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super('ONCE_STORE_UNAVAILABLE', `the manager at ${url.origin} does not answer: ${why}`, {
      cause,
    });
  }
}

interface Waiting {
  readonly submission: Submission;
  readonly waitMs: DurationMs;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Batches that may be in flight at once; what comes meanwhile is queued for the next. */
const FRESH_BATCHES = 4;
/** A batch that still has not been answered by then holds something that waits, and makes room for others. */
const FRESH_MS = 25;
const CONNECTIONS = 256;
const ENDED_EARLY = 'the answer ended early';
const LONGEST_BATCH = 4 * MIB;

/** One manager, reached over HTTP. */
export class ManagerLink implements JobsPort {
  readonly url: URL;
  readonly #secret: string;
  readonly #silenceMs: DurationMs;
  readonly #homes: (() => number) | null;
  readonly #agent: Agent | SecureAgent;
  readonly #prefix: string;
  readonly #target: RequestOptions;
  readonly #waiting: Waiting[] = [];
  #fresh = 0;
  #scheduled = false;

  constructor(options: ManagerLinkOptions) {
    this.url = options.url;
    this.#secret = checkSecret('the secret of gates and managers', options.secret);
    this.#silenceMs = options.silenceMs ?? 3 * PULSE_MS;
    this.#homes = options.homes ?? null;
    const settings = { keepAlive: true, maxSockets: CONNECTIONS, scheduling: 'lifo' } as const;
    const { protocol, pathname } = options.url;
    this.#agent = protocol === 'https:' ? new SecureAgent(settings) : new Agent(settings);
    this.#prefix = pathname.replace(/\/$/, '');
    this.#target = { ...urlToHttpOptions(options.url), method: 'POST', agent: this.#agent };
  }

  submit(submission: Submission, waitMs: DurationMs = 30 * SECOND): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ submission, waitMs, resolve, reject });
      this.#schedule();
    });
  }

  find(tenant: string, jobId: string): Promise<JobView | null> {
    return this.#call({ call: 'find', tenant, jobId }) as Promise<JobView | null>;
  }

  list(query: JobQuery): Promise<JobList> {
    return this.#call({ call: 'list', query }) as Promise<JobList>;
  }

  cancel(tenant: string, jobId: string): Promise<CancelResult> {
    return this.#call({ call: 'cancel', tenant, jobId }) as Promise<CancelResult>;
  }

  windows(): Promise<JobWindows> {
    return this.#call({ call: 'windows' }) as Promise<JobWindows>;
  }

  close(): void {
    this.#agent.destroy();
  }

  /** After this turn of the event loop, so that all that came with it travels together. */
  #schedule(): void {
    if (this.#scheduled || this.#fresh >= FRESH_BATCHES) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      while (this.#fresh < FRESH_BATCHES && this.#waiting.length > 0) {
        void this.#send(this.#waiting.splice(0, batchLength(this.#waiting)));
      }
    });
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    this.#fresh += 1;
    let isFresh = true;
    const makeRoom = () => {
      if (!isFresh) return;
      isFresh = false;
      this.#fresh -= 1;
      if (this.#waiting.length > 0) this.#schedule();
    };
    const timer = setTimeout(makeRoom, FRESH_MS);
    const body: SubmissionBatch = {
      homes: this.#homes?.() ?? null,
      submissions: batch.map(({ submission, waitMs }) => [submission, waitMs]),
    };
    let answered = 0;
    try {
      await this.#post(SUBMISSIONS_PATH, JSON.stringify(body), (line) => {
        const [i, answer] = JSON.parse(line) as AnswerLine;
        batch[i]?.resolve(answer);
        answered += 1;
      });
      if (answered < batch.length) throw new LinkDown(this.url, new Error(ENDED_EARLY));
    } catch (error) {
      // Promises that have resolved ignore this: only those without an answer are rejected.
      for (const { reject } of batch) reject(error);
    }
    clearTimeout(timer);
    makeRoom();
  }

  async #call(call: ManagerCall): Promise<CallAnswers[keyof CallAnswers]> {
    let answer = '';
    await this.#post(CALLS_PATH, JSON.stringify(call), (line) => {
      answer += line;
    });
    return JSON.parse(answer) as CallAnswers[keyof CallAnswers];
  }

  #post(path: string, body: string, onLine: (line: string) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (cause: unknown) => reject(new LinkDown(this.url, cause));
      const sent = this.#request(path, body);
      sent.once('error', fail);
      sent.setTimeout(this.#silenceMs, () => {
        sent.destroy(new Error(`silent for ${this.#silenceMs} ms`));
      });
      sent.once('response', (response) => {
        response.once('error', fail);
        response.once('close', () => {
          if (!response.complete) fail(new Error('the connection broke'));
        });
        if (response.statusCode !== 200) {
          response.resume();
          fail(new Error(`it answered ${response.statusCode}`));
          return;
        }
        readLines(response, onLine, resolve, fail);
      });
      sent.end(body);
    });
  }

  #request(path: string, body: string): ClientRequest {
    const make = this.url.protocol === 'https:' ? httpsRequest : httpRequest;
    return make({
      ...this.#target,
      path: this.#prefix + path,
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        [SIGNATURE_HEADER]: signDigest(this.#secret, body, Date.now()),
      },
    });
  }
}

/** As many as travel together: the first in any case, however long it is. */
function batchLength(waiting: readonly Waiting[]): number {
  let characters = 0;
  const most = Math.min(waiting.length, MOST_IN_BATCH);
  for (let i = 0; i < most; i += 1) {
    characters += waiting[i]!.submission.payload.length;
    if (characters > LONGEST_BATCH && i > 0) return i;
  }
  return most;
}

function readLines(
  response: IncomingMessage,
  onLine: (line: string) => void,
  onEnd: () => void,
  fail: (error: unknown) => void,
): void {
  let rest = '';
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    try {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line !== '') onLine(line);
    } catch (error) {
      fail(error);
      response.destroy();
    }
  });
  response.once('end', () => {
    try {
      if (rest !== '') onLine(rest);
      onEnd();
    } catch (error) {
      fail(error);
    }
  });
}
