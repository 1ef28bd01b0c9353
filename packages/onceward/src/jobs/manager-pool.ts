import { OncewardError } from '../engine/errors.ts';
import { type DurationMs, SECOND } from '../engine/units.ts';
import type { World } from '../engine/world.ts';
import type { CancelResult, JobList, JobQuery, JobsPort, JobView } from './jobs-port.ts';
import { LinkDown, type ManagerLink } from './manager-link.ts';
import { type Answer, refused, type Submission } from './submission.ts';
import { checkGateWindows, type JobWindows } from './windows.ts';

export interface ManagerPoolOptions {
  readonly links: readonly ManagerLink[];
  readonly world: World;
}

interface Member {
  readonly link: ManagerLink;
  /** Left alone until then, unless all are. On the steady clock. */
  downUntil: DurationMs;
}

const REST_MS = SECOND;

/**
 * Managers that share a store: any of them will do. They are asked in turn; when one is gone the next is asked the same
 * thing under the same key, which is safe, because the store knows whether the first had taken it in.
 */
export class ManagerPool implements JobsPort {
  readonly #members: readonly Member[];
  readonly #world: World;
  #turn = 0;

  constructor({ links, world }: ManagerPoolOptions) {
    if (links.length === 0) {
      throw new OncewardError(
        'ONCE_INVALID_CONFIG',
        'a gate needs the URL of at least one manager',
      );
    }
    this.#members = links.map((link) => ({ link, downUntil: 0 }));
    this.#world = world;
  }

  async submit(submission: Submission, waitMs: DurationMs): Promise<Answer> {
    let last: Answer = refused('unavailable', { retryAfterMs: REST_MS });
    for (const member of this.#inTurn()) {
      try {
        const answer = await member.link.submit(submission, waitMs);
        if (answer.status !== 'refused' || answer.why !== 'unavailable') return answer;
        last = answer;
      } catch (error) {
        this.#noteDown(member, error);
      }
    }
    return last;
  }

  find(tenant: string, jobId: string): Promise<JobView | null> {
    return this.#ask((link) => link.find(tenant, jobId));
  }

  list(query: JobQuery): Promise<JobList> {
    return this.#ask((link) => link.list(query));
  }

  cancel(tenant: string, jobId: string): Promise<CancelResult> {
    return this.#ask((link) => link.cancel(tenant, jobId));
  }

  /**
   * Compares the gate's windows with those of every manager that answers, and says how many did. A manager whose
   * windows are too short stops the gate's start.
   */
  async checkWindows(gate: JobWindows): Promise<number> {
    let answered = 0;
    for (const { link } of this.#members) {
      let windows: JobWindows;
      try {
        windows = await link.windows();
      } catch (error) {
        if (error instanceof LinkDown) continue;
        throw error;
      }
      checkGateWindows(gate, windows);
      answered += 1;
    }
    return answered;
  }

  close(): void {
    for (const { link } of this.#members) link.close();
  }

  async #ask<T>(call: (link: ManagerLink) => Promise<T>): Promise<T> {
    let last: unknown;
    for (const member of this.#inTurn()) {
      try {
        return await call(member.link);
      } catch (error) {
        this.#noteDown(member, error);
        last = error;
      }
    }
    throw new OncewardError('ONCE_STORE_UNAVAILABLE', 'no manager answers', {
      cause: last,
      retryAfterMs: REST_MS,
    });
  }

  /** Each once, beginning with the next in turn; those that were found down a moment ago come last. */
  #inTurn(): readonly Member[] {
    const first = this.#turn;
    this.#turn = (this.#turn + 1) % this.#members.length;
    const all = [...this.#members.slice(first), ...this.#members.slice(0, first)];
    const now = this.#world.elapsed();
    const isUp = ({ downUntil }: Member) => downUntil <= now;
    return [...all.filter(isUp), ...all.filter((member) => !isUp(member))];
  }

  #noteDown(member: Member, error: unknown): void {
    if (!(error instanceof LinkDown)) throw error;
    member.downUntil = this.#world.elapsed() + REST_MS;
  }
}
