import type { Captured } from './answer.ts';
import type { IdempotencyContext } from './idempotency-context.ts';

/** One request in a door. */
export interface Exchange {
  /** The caller has hung up: an effect that has not begun does not begin. */
  hasLeft(): boolean;
  /** Runs the handler and gives what it answered. `null`: only watching, the answer must not be touched. */
  run(context: IdempotencyContext | null): Promise<Captured>;
  /** Called before the handler's answer goes out: retries get it until then, which is a date as HTTP writes it. */
  kept(until: string): void;
}
