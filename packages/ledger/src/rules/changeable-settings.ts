/** What an admin may change: every replica goes by what the log says, never by its own environment. */
export interface ChangeableSettings {
  readonly idempotency_ttl_ms: number;
  readonly idempotency_cleanup_ms: number;
  readonly database_conflict: 'rollback' | 'reject_duplicate';
  readonly eviction_interval: number;
  readonly client_ttl_ms: number;
}
