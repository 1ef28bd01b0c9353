import { StoreError } from '../engine/errors.ts';
import type { DurationMs } from '../engine/units.ts';

/** A call that is bounded in time. */
export interface TimedCall {
  /** Set when its time begins. */
  endsAt: DurationMs;
  isOpen: boolean;
  /** Its time is up. */
  expire(): void;
}

/**
 * Bounds the calls of one store in time. All have the same limit, so they end in the order they began: one queue
 * and one timer serve them all.
 *
 * A result that arrives after its limit is not given either, even when it is there before the timer: a process that
 * was frozen must not act on what was true before.
 */
export class CallDeadlines {
  readonly #timeoutMs: DurationMs;
  readonly #onLate: () => void;
  #calls: (TimedCall | null)[] = [];
  #first = 0;
  #timer: NodeJS.Timeout | null = null;

  /** `onLate` is called for every call that timed out. */
  constructor(timeoutMs: DurationMs, onLate: () => void = () => {}) {
    this.#timeoutMs = timeoutMs;
    this.#onLate = onLate;
  }

  /** `explain` turns a failure of the driver into the error that callers see; `applied` is asked when time is up. */
  bound<T>(
    result: Promise<T>,
    explain: (cause: unknown) => unknown,
    applied: () => 'no' | 'unknown' = () => 'unknown',
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const call: TimedCall = {
        endsAt: 0,
        isOpen: true,
        expire: () => {
          reject(late(this.#timeoutMs, applied()));
          this.#onLate();
        },
      };
      this.start(call);
      result.then(
        (value) => {
          if (this.endInTime(call)) resolve(value);
        },
        (cause) => {
          if (this.endInTime(call)) reject(explain(cause));
        },
      );
    });
  }

  /** For a call settled elsewhere, after a call of `endInTime`. */
  start(call: TimedCall): void {
    call.endsAt = performance.now() + this.#timeoutMs;
    this.#calls.push(call);
    if (this.#timer === null) this.#arm(this.#timeoutMs);
  }

  /** Whether its result may be given; if not, it has expired. */
  endInTime(call: TimedCall): boolean {
    if (!call.isOpen) return false;
    this.#close(call);
    if (performance.now() <= call.endsAt) return true;
    call.expire();
    return false;
  }

  /** A call that ended in time is released at once: it holds an answer, or a whole request. */
  #close(call: TimedCall): void {
    call.isOpen = false;
    const calls = this.#calls;
    while (this.#first < calls.length && calls[this.#first]?.isOpen === false) {
      calls[this.#first] = null;
      this.#first += 1;
    }
    if (this.#first === calls.length) {
      calls.length = 0;
      this.#first = 0;
    } else if (this.#first >= 1_024) {
      calls.splice(0, this.#first);
      this.#first = 0;
    }
  }

  #arm(ms: DurationMs): void {
    this.#timer = setTimeout(() => this.#expireDue(), ms);
    this.#timer.unref();
  }

  #expireDue(): void {
    this.#timer = null;
    const now = performance.now();
    let head = this.#calls[this.#first];
    while (head != null && head.endsAt <= now) {
      this.#close(head);
      head.expire();
      head = this.#calls[this.#first];
    }
    if (head != null) this.#arm(Math.max(1, head.endsAt - now));
  }
}

export function late(ms: DurationMs, applied: 'no' | 'unknown'): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', `the store did not answer within ${ms} ms`, {
    applied,
  });
}
