import { StoreError } from '../engine/errors.ts';
import type { DurationMs } from '../engine/units.ts';

interface Call {
  readonly endsAt: DurationMs;
  open: boolean;
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
  #calls: Call[] = [];
  #first = 0;
  #timer: NodeJS.Timeout | null = null;

  /** `onLate` is told of every call that ran out of time. */
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
      const call: Call = {
        endsAt: performance.now() + this.#timeoutMs,
        open: true,
        expire: () => {
          reject(late(this.#timeoutMs, applied()));
          this.#onLate();
        },
      };
      this.#calls.push(call);
      if (this.#timer === null) this.#arm(this.#timeoutMs);
      result.then(
        (value) => {
          if (this.#endInTime(call)) resolve(value);
        },
        (cause) => {
          if (this.#endInTime(call)) reject(explain(cause));
        },
      );
    });
  }

  #endInTime(call: Call): boolean {
    if (!call.open) return false;
    this.#close(call);
    if (performance.now() <= call.endsAt) return true;
    call.expire();
    return false;
  }

  #close(call: Call): void {
    call.open = false;
    while (this.#first < this.#calls.length && this.#calls[this.#first]?.open === false) {
      this.#first += 1;
    }
    if (this.#first === this.#calls.length) {
      this.#calls = [];
      this.#first = 0;
    } else if (this.#first >= 1_024) {
      this.#calls.splice(0, this.#first);
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
    while (head !== undefined && head.endsAt <= now) {
      this.#close(head);
      head.expire();
      head = this.#calls[this.#first];
    }
    if (head !== undefined) this.#arm(Math.max(1, head.endsAt - now));
  }
}

function late(ms: DurationMs, applied: 'no' | 'unknown'): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', `the store did not answer within ${ms} ms`, {
    applied,
  });
}
