import { isReleased } from './decide.ts';
import { OncewardError, StoreError } from './errors.ts';
import type { StorePhase } from './events.ts';
import { auditLateCommit } from './late-commit.ts';
import {
  callStore,
  type EngineParts,
  prepare,
  type SwapWaiter,
  startSwap,
  swapRecord,
  understand,
} from './parts.ts';
import type { Policy } from './policy.ts';
import type {
  DoubtReason,
  OperationId,
  OperationRecord,
  PendingRecord,
  RecordState,
  Revision,
  SettledRecord,
  Step,
} from './record.ts';
import type { NextRecord, StoredRecord, SwapResult } from './record-store.ts';
import type { Due } from './timer-lines.ts';
import { doubtRecord, releaseRecord, renewRecord } from './transitions.ts';
import type { DurationMs } from './units.ts';

export type WriteResult =
  /** It is in the store. */
  | 'written'
  /** Someone else owns the record now; this attempt may write no more. */
  | 'lost';

/** How a swap ended that was made before. */
type Tried = () => Promise<SwapResult>;

/**
 * One attempt's hold on a record. Every write goes through `#write`, one at a time, and carries the revision
 * that this attempt wrote last: whoever came in between makes it lose.
 */
export class Claim {
  readonly id: OperationId;
  /** The revision of the claim: rises with each attempt. Hand it to whatever must refuse late writers. */
  readonly fence: Revision;
  readonly #parts: EngineParts;
  readonly #policy: Policy;
  #revision: Revision;
  #record: PendingRecord;
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

  /** True until the lease could have lapsed, as this process's own steady clock tells it. */
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

  /** Makes a finished step durable. It also renews the lease. */
  saveStep(step: Step): Promise<WriteResult> {
    return this.#enqueue(() =>
      this.#write('renew', (held) => {
        const others = held.steps.filter(({ name }) => name !== step.name);
        return this.#renewed(held, [...others, step]);
      }),
    );
  }

  /** `tried`: how a first try at it ended. */
  settle(next: SettledRecord, tried: Tried | null = null): Promise<WriteResult> {
    this.end();
    return this.#enqueue(() => this.#write('settle', () => next, tried));
  }

  /** Begins to settle where nothing was written since the claim, and nothing is. `false`: call `settle`. */
  startSettle(next: NextRecord, waiter: SwapWaiter): boolean {
    if (this.#queue !== null || this.#lost) return false;
    this.end();
    const { id, fence } = this;
    void startSwap(this.#parts, 'settle', this.#policy, id, fence, next, waiter);
    return true;
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
    if (this.lost || (phase === 'renew' && this.#ended)) return 'lost';
    const parts = this.#parts;
    let wasDoubted = false;
    for (let tries = 0; tries < 4; tries += 1) {
      const record = make(this.#record);
      const next = record === null ? null : prepare(this.id, record);
      let found: StoredRecord | null;
      try {
        const { id } = this;
        const first = tries === 0 ? tried : null;
        const result = await (first === null
          ? swapRecord(parts, phase, this.#policy, id, this.#revision, next)
          : first());
        if (result.won) {
          if (wasDoubted) parts.observe({ type: 'doubt_resolved', id, by: 'attempt' });
          return this.#wrote(record, result.revision);
        }
        found = result.current;
      } catch (error) {
        found = await this.#lookAfter(error);
      }
      if (phase === 'settle' && this.#isOwnAnswer(found)) return 'written';
      if (!this.#mayGoOn(found, next)) return this.#lose();
      if (found === null) return 'written';
      if (understand(parts, this.id, found)?.record?.state === 'in_doubt') {
        wasDoubted = true;
        await auditLateCommit(parts, this.id, this.attempt, stateAfter(record));
      }
      this.#adopt(found);
    }
    throw new StoreError('ONCE_STORE_UNAVAILABLE', `the record kept changing during ${phase}`);
  }

  /** What is there is ours, and may hold a step whose saving we took for failed. */
  #adopt(found: StoredRecord): void {
    this.#revision = found.revision;
    const steps = understand(this.#parts, this.id, found)?.record?.steps;
    if (steps !== undefined) this.#record = { ...this.#record, steps };
  }

  #wrote(record: OperationRecord | null, revision: Revision): WriteResult {
    this.#revision = revision;
    if (record?.state === 'pending' && !isReleased(record)) this.#record = record;
    return 'written';
  }

  /** After a lost reply, a read says what is there now. */
  #lookAfter(error: unknown): Promise<StoredRecord | null> {
    if (error instanceof OncewardError && error.code === 'ONCE_TOO_LARGE') throw error;
    const { store } = this.#parts;
    return callStore(this.#parts, 'read', this.#policy, () => store.read(this.id));
  }

  /**
   * The swap did not win. That is no loss while what is there is this attempt's own: a write of ours whose reply
   * was lost, or the doubt that someone recorded because we were late. Nothing there is no loss for a release:
   * it may be the one we made.
   */
  #mayGoOn(found: StoredRecord | null, next: NextRecord | null): boolean {
    if (found === null) return next === null;
    const record = understand(this.#parts, this.id, found)?.record;
    return (
      record?.owner === this.owner && (record.state === 'pending' || record.state === 'in_doubt')
    );
  }

  /** Settled by this attempt itself, in a write whose reply was lost: there is only one answer it could be. */
  #isOwnAnswer(found: StoredRecord | null): boolean {
    const record = understand(this.#parts, this.id, found)?.record;
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

/** What a write makes of the record, in the words of the audit trail. */
function stateAfter(next: OperationRecord | null): RecordState | 'released' {
  if (next === null) return 'released';
  return next.state === 'pending' && isReleased(next) ? 'released' : next.state;
}

function fenceLost(): OncewardError {
  return new OncewardError('ONCE_FENCE_LOST', 'another attempt has taken over');
}
