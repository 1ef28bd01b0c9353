import type { DurationMs } from '../engine/units.ts';
import { maskKey } from '../keys/mask.ts';

/** The events of a door. The names are stable: logs, metrics and alerts depend on them. */
export type HttpEventName =
  | 'idempotency_executed'
  | 'idempotency_cache_hit'
  | 'idempotency_concurrent_request'
  | 'idempotency_key_mismatch'
  | 'idempotency_key_expired'
  | 'idempotency_key_missing'
  | 'idempotency_key_invalid'
  | 'idempotency_in_doubt'
  | 'idempotency_released'
  | 'idempotency_over_quota'
  | 'idempotency_store_unavailable'
  | 'idempotency_unrecorded'
  | 'idempotency_caller_left'
  | 'idempotency_body_too_large'
  | 'idempotency_streaming_skipped'
  | 'idempotency_response_not_retained'
  | 'idempotency_request_refused';

const LEVELS: Partial<Record<HttpEventName, HttpEvent['level']>> = {
  idempotency_executed: 'info',
  idempotency_cache_hit: 'info',
  idempotency_released: 'info',
  idempotency_streaming_skipped: 'info',
  idempotency_caller_left: 'info',
  idempotency_in_doubt: 'error',
  idempotency_store_unavailable: 'error',
  idempotency_unrecorded: 'error',
};

/** One event. The key and the scope are masked when they are read, and there is no other way to them. */
export class HttpEvent {
  readonly name: HttpEventName;
  readonly method: string;
  readonly route: string;
  /** The status that is answered; in observe mode, the one that would have been. */
  readonly status: number;
  readonly mode: 'observe' | 'enforce';
  readonly elapsedMs: DurationMs;
  readonly #key: string | undefined;
  readonly #principal: string | undefined;

  constructor(name: HttpEventName, facts: HttpEventFacts) {
    this.name = name;
    this.method = facts.method;
    this.route = facts.route;
    this.status = facts.status;
    this.mode = facts.mode;
    this.elapsedMs = facts.elapsedMs;
    this.#key = facts.key;
    this.#principal = facts.principal;
  }

  get level(): 'info' | 'warn' | 'error' {
    return LEVELS[this.name] ?? 'warn';
  }

  get key(): string | undefined {
    return this.#key === undefined ? undefined : maskKey(this.#key);
  }

  get scope(): string | undefined {
    return this.#principal === undefined ? undefined : maskKey(this.#principal);
  }

  toJSON(): Record<string, unknown> {
    const { name, level, key, scope, method, route, status, mode, elapsedMs } = this;
    return { name, level, key, scope, method, route, status, mode, elapsedMs };
  }
}

export interface HttpEventFacts {
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly mode: 'observe' | 'enforce';
  readonly elapsedMs: DurationMs;
  readonly key: string | undefined;
  readonly principal: string | undefined;
}
