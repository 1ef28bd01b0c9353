import { OncewardError } from '../../engine/errors.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import type { World } from '../../engine/world.ts';
import type { CancelResult, JobList, JobQuery, JobsPort, JobView } from '../jobs-port.ts';
import { type Answer, refused, type Submission } from '../submission.ts';
import { checkGateWindows, type JobWindows } from '../windows.ts';
import { LinkDown, type ManagerLink } from './manager-link.ts';

export interface ManagerPoolOptions {
  readonly links: readonly ManagerLink[];
  readonly world: World;
  /** The gate's own windows: a manager whose windows are shorter is not asked. Absent between data centres. */
  readonly windows?: JobWindows;
  /** Called when a manager is found whose windows are too short. */
  readonly onMisfit?: (error: OncewardError) => void;
}

interface Member {
  readonly link: ManagerLink;
  /** Left alone until then, unless all are. On the steady clock. */
  downUntil: DurationMs;
  /** Its windows were compared since it was last found down: it may have come back with others. */
  isChecked: boolean;
}

const REST_MS = SECOND;

/**
 * Managers that share a store: any of them will do. They are used in turn; when one is down the next gets the same
 * submission under the same key, which is safe, because the store knows whether the first had taken it in.
 */
export class ManagerPool implements JobsPort {
  readonly #members: readonly Member[];
  readonly #options: ManagerPoolOptions;
  #turn = 0;

  constructor(options: ManagerPoolOptions) {
    const { links } = options;
    if (links.length === 0) {
      throw new OncewardError(
        'ONCE_INVALID_CONFIG',
        'a gate needs the URL of at least one manager',
      );
    }
    this.#members = links.map((link) => ({ link, downUntil: 0, isChecked: false }));
    this.#options = options;
  }

  async submit(submission: Submission, waitMs: DurationMs): Promise<Answer> {
    let last: Answer = refused('unavailable', { retryAfterMs: REST_MS });
    for (const member of this.#inTurn()) {
      try {
        if (!member.isChecked) await this.#check(member);
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

  /** Compares windows with every manager that answers, and says how many did. One that does not fit throws. */
  async checkWindows(): Promise<number> {
    let answered = 0;
    for (const member of this.#members) {
      try {
        await this.#check(member);
        answered += 1;
      } catch (error) {
        if (!(error instanceof LinkDown)) throw error;
      }
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
    const members = this.#members;
    if (members.length === 1) return members;
    const first = this.#turn;
    this.#turn = (this.#turn + 1) % members.length;
    const now = this.#options.world.elapsed();
    const up: Member[] = [];
    const down: Member[] = [];
    for (let i = 0; i < members.length; i += 1) {
      const member = members[(first + i) % members.length]!;
      (member.downUntil <= now ? up : down).push(member);
    }
    return down.length === 0 ? up : [...up, ...down];
  }

  async #check(member: Member): Promise<void> {
    const { windows } = this.#options;
    if (windows !== undefined) checkGateWindows(windows, await member.link.windows());
    member.isChecked = true;
  }

  #noteDown(member: Member, error: unknown): void {
    if (!(error instanceof OncewardError)) throw error;
    if (!(error instanceof LinkDown)) this.#options.onMisfit?.(error);
    member.isChecked = false;
    member.downUntil = this.#options.world.elapsed() + REST_MS;
  }
}
