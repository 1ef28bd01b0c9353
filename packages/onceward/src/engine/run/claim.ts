import { OncewardError, StoreError } from '../errors.ts';
import type { StorePhase } from '../events.ts';
import type { EngineParts } from '../parts.ts';
import type { Policy } from '../policy.ts';
import { type Current, isReleased } from '../record/decide.ts';
import { doubtRecord, releaseRecord, renewRecord, withSteps } from '../record/transitions.ts';
import type {
  DoubtReason,
  OperationId,
  OperationRecord,
  PendingRecord,
  Revision,
  SettledRecord,
  Step,
} from '../record.ts';
import type { SwapResult } from '../record-store.ts';
import {
  prepare,
  readRecord,
  type Swapped,
  startSwap,
  understand,
  type Waiter,
} from '../store-access/store-calls.ts';
import type { Due } from '../store-access/timer-lines.ts';
import type { DurationMs } from '../units.ts';
import { type OwnRecord, writeOwn } from './doubt.ts';

export type WriteResult =
  /** It is in the store. */
  | 'written'
  /** Someone else owns the record now; this attempt may write no more. */
  | 'lost';

/** Called once, with how the settle ended. */
export interface SettleWaiter {
  settled(result: WriteResult): void;
  settleFailed(error: unknown): void;
}

/** How a first try at a write ended. */
type Tried = () => Promise<Swapped>;

/**
 * One attempt's hold on a record. Its writes are made one at a time, and each carries the revision that this attempt
 * wrote last: if another writer came in between, it loses.
 */
export class Claim implements Waiter<SwapResult> {
  readonly id: OperationId;
  /** The revision of the claim: rises with each attempt. Give it to whatever must refuse late writers. */
  readonly fence: Revision;
  readonly #parts: EngineParts;
  readonly #policy: Policy;
  #revision: Revision;
  /** What is there under this revision is a doubt about this attempt; every write that ends it is audited. */
  #isDoubted = false;
  #record: PendingRecord;
  #settling: SettledRecord | null = null;
  #settleWaiter: SettleWaiter | null = null;
  #queue: Promise<unknown> | null = null;
  #heartbeat: Heartbeat | null = null;
  #stop: AbortController | null = null;
  #lost = false;
  #renewedAt: number;
  #ended = false;

  constructor(
    parts: EngineParts,
    policy: Policy,
    id: OperationId,
    record: PendingRecord,
    revision: Revision,
    claimedAt: number,
  ) {
    this.id = id;
    this.fence = revision;
    this.#parts = parts;
    this.#policy = policy;
    this.#record = record;
    this.#revision = revision;
    this.#renewedAt = claimedAt;
  }

  get attempt(): number {
    return this.#record.attempt;
  }

  get owner(): string {
    return this.#record.owner;
  }

  get record(): PendingRecord {
    return this.#record;
  }

  /** Aborted when the claim is lost: the effect should stop if it still can. */
  get signal(): AbortSignal {
    if (this.#stop === null) {
      this.#stop = new AbortController();
      if (this.#lost) this.#stop.abort(fenceLost());
    }
    return this.#stop.signal;
  }

  get lost(): boolean {
    return this.#lost;
  }

  /** True until the lease could have lapsed, by this process's own steady clock. */
  get isFresh(): boolean {
    return this.#parts.world.elapsed() - this.#renewedAt < this.#policy.leaseMs;
  }

  startHeartbeat(): void {
    this.#heartbeat = new Heartbeat(this);
    this.#parts.timers.start(this.#policy.leaseMs / 3, this.#heartbeat);
  }

  async renew(): Promise<WriteResult> {
    const began = this.#parts.world.elapsed();
    const result = await this.#enqueue(() =>
      this.#write('renew', (held) => this.#renewed(held, held.steps)),
    );
    if (result === 'written') this.#renewedAt = began;
    return result;
  }

  /** Renews a claim that could have lapsed, before anybody acts on it. `null`: it is fresh. Otherwise why it is not. */
  async refresh(): Promise<'lost' | Error | null> {
    if (this.isFresh) return null;
    try {
      if ((await this.renew()) === 'lost') return 'lost';
      if (this.isFresh) return null;
    } catch (error) {
      return error as Error;
    }
    return new OncewardError(
      'ONCE_STORE_UNAVAILABLE',
      `the store took longer to renew the claim than its lease of ${this.#policy.leaseMs} ms`,
    );
  }

  /** Makes a finished step durable. It also renews the lease. */
  saveStep(step: Step): Promise<WriteResult> {
    return this.#enqueue(() =>
      this.#write('renew', (held) => {
        const others = held.steps.filter(({ name }) => name !== step.name);
        return this.#renewed(held, [...others, step]);
      }),
    );
  }

  /**
   * Writes the answer. The first try calls back and is not awaited, where no other write was made since the claim. What
   * does not win at once goes the way of every other write.
   */
  settle(next: SettledRecord, waiter: SettleWaiter): void {
    this.end();
    this.#settling = next;
    this.#settleWaiter = waiter;
    if (this.#queue !== null || this.#lost) {
      this.#settleOn(null);
    } else {
      const prepared = prepare(this.id, next);
      const revision = this.#revision;
      void startSwap(this.#parts, 'settle', this.#policy, this.id, revision, prepared, this);
    }
  }

  /** The first try has an answer. */
  succeeded(result: SwapResult): void {
    if (result.won) this.#settleWaiter!.settled('written');
    else this.#settleOn(async () => this.#lostTo(result));
  }

  failed(error: unknown): void {
    this.#settleOn(() => Promise.reject(error));
  }

  #settleOn(tried: Tried | null): void {
    const waiter = this.#settleWaiter!;
    this.settleLate(this.#settling!, tried).then(
      (result) => waiter.settled(result),
      (error) => waiter.settleFailed(error),
    );
  }

  settleLate(next: SettledRecord, tried: Tried | null = null): Promise<WriteResult> {
    return this.#enqueue(() => this.#write('settle', () => next, tried));
  }

  #lostTo(result: Extract<SwapResult, { won: false }>): Swapped {
    return { won: false, current: understand(this.#parts, this.id, result.current) };
  }

  /** Gives the claim back. Steps that were made durable are kept for the next attempt. */
  release(mayHaveActed: boolean): Promise<WriteResult> {
    this.end();
    const make = (held: PendingRecord) => releaseRecord(held, this.fence, mayHaveActed);
    return this.#enqueue(() => this.#write('release', make));
  }

  doubt(reason: DoubtReason): Promise<WriteResult> {
    this.end();
    return this.#enqueue(() =>
      this.#write('doubt', (held) =>
        doubtRecord(held, this.fence, reason, this.#parts.clock.now()),
      ),
    );
  }

  /** No more heartbeats: the attempt is being settled, or is over. */
  end(): void {
    this.#ended = true;
    this.#heartbeat?.stop();
  }

  async beat(): Promise<void> {
    try {
      await this.renew();
    } catch {
      // The store is out of reach. The lease may lapse; the next write finds out what that meant.
    }
    if (!this.#ended && !this.lost) this.startHeartbeat();
  }

  #renewed(held: PendingRecord, steps: readonly Step[]): PendingRecord {
    return renewRecord(held, this.fence, steps, this.#policy, this.#parts.clock.now());
  }

  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue === null ? work() : this.#queue.then(work, work);
    this.#queue = turn;
    return turn;
  }

  async #write(
    phase: StorePhase,
    make: (held: PendingRecord) => OperationRecord | null,
    tried: Tried | null = null,
  ): Promise<WriteResult> {
    // A step that outlives its effect must not bring a settled record back.
    if (this.#lost || (phase === 'renew' && this.#ended)) return 'lost';
    for (let tries = 0; tries < 4; tries += 1) {
      const record = make(this.#record);
      let found: Current | null;
      try {
        const own: OwnRecord = {
          revision: this.#revision,
          attempt: this.attempt,
          isDoubted: this.#isDoubted,
        };
        const result: Swapped = await (tries === 0 && tried !== null
          ? tried()
          : writeOwn(this.#parts, phase, this.#policy, this.id, own, record));
        if (result.won) return this.#wrote(record, result.revision);
        found = result.current;
      } catch (error) {
        found = await this.#readAfter(error);
      }
      if (phase === 'settle' && this.#isOwnAnswer(found)) return 'written';
      // Nothing there is no loss for a release: it may be the one we made.
      if (found === null) return record === null ? 'written' : this.#lose();
      if (!this.#isOwnClaim(found)) return this.#lose();
      this.#adopt(found);
    }
    throw new StoreError('ONCE_STORE_UNAVAILABLE', `the record kept changing during ${phase}`);
  }

  /** What is there is ours, and may hold a step whose saving we took for failed. */
  #adopt({ revision, record }: Current): void {
    this.#revision = revision;
    this.#isDoubted = record?.state === 'in_doubt';
    if (record !== null) this.#record = withSteps(this.#record, record.steps);
  }

  #wrote(record: OperationRecord | null, revision: Revision): WriteResult {
    this.#revision = revision;
    this.#isDoubted = false;
    if (record?.state === 'pending' && !isReleased(record)) this.#record = record;
    return 'written';
  }

  /** After a lost reply, a read says what is there now. */
  #readAfter(error: unknown): Promise<Current | null> {
    const isLostReply = error instanceof OncewardError && error.code !== 'ONCE_TOO_LARGE';
    if (!isLostReply) throw error;
    return readRecord(this.#parts, this.#policy, this.id);
  }

  /**
   * The swap did not win. That is no loss while what is there is this attempt's own: a write of ours whose reply
   * was lost, or the doubt that someone recorded because we were late.
   */
  #isOwnClaim({ record }: Current): boolean {
    return (
      record?.owner === this.owner && (record.state === 'pending' || record.state === 'in_doubt')
    );
  }

  /** Settled by this attempt itself, in a write whose reply was lost: there is only one answer it could be. */
  #isOwnAnswer(found: Current | null): boolean {
    const record = found?.record;
    if (record?.state !== 'committed' && record?.state !== 'rejected') return false;
    return record.owner === this.owner && record.resolution === null;
  }

  #lose(): WriteResult {
    this.end();
    if (!this.#lost) {
      this.#lost = true;
      this.#stop?.abort(fenceLost());
      this.#parts.observe({ type: 'fence_lost', id: this.id, attempt: this.attempt });
    }
    return 'lost';
  }
}

/** Renews a claim. A line of timers holds it for longer than it beats, and must not hold the claim. */
class Heartbeat implements Due {
  #claim: Claim | null;
  dueAt: DurationMs = 0;
  isOver = false;

  constructor(claim: Claim) {
    this.#claim = claim;
  }

  due(): void {
    void this.#claim?.beat();
  }

  stop(): void {
    this.isOver = true;
    this.#claim = null;
  }
}

function fenceLost(): OncewardError {
  return new OncewardError('ONCE_FENCE_LOST', 'another attempt has taken over');
}
