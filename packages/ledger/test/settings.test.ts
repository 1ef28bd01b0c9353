import { describe, expect, it } from 'vitest';
import { DEFAULT_SETTINGS, ENVIRONMENT, settingsFromEnvironment } from '../src/settings.ts';

describe('settings from the environment', () => {
  it('[L4] have the names and units that operators know', () => {
    const settings = settingsFromEnvironment({
      LEDGER_IDEMPOTENCY_TTL_HOURS: '2',
      LEDGER_IDEMPOTENCY_CLEANUP_INTERVAL_MIN: '10',
      LEDGER_BATCH_SIZE: '64',
      LEDGER_BATCH_TIMEOUT_MS: '3',
      LEDGER_DATABASE_CONFLICT: 'reject_duplicate',
    });
    expect(settings).toEqual({
      idempotencyTtlMs: 7_200_000,
      idempotencyCleanupMs: 600_000,
      batchSize: 64,
      batchTimeoutMs: 3,
      databaseConflict: 'reject_duplicate',
    });
  });

  it('[L4] default to an hour, cleaned up every five minutes', () => {
    expect(settingsFromEnvironment({})).toEqual({});
    expect(DEFAULT_SETTINGS.idempotencyTtlMs).toBe(3_600_000);
    expect(DEFAULT_SETTINGS.idempotencyCleanupMs).toBe(300_000);
  });

  it('[L4] that are not valid stop with their name', () => {
    for (const name of Object.keys(ENVIRONMENT)) {
      for (const value of ['x', '-1', '1e99', 'NaN']) {
        expect(() => settingsFromEnvironment({ [name]: value })).toThrow(name);
      }
    }
    expect(() => settingsFromEnvironment({ LEDGER_BATCH_SIZE: '1.5' })).toThrow(
      'LEDGER_BATCH_SIZE',
    );
    expect(() => settingsFromEnvironment({ LEDGER_DATABASE_CONFLICT: 'shrug' })).toThrow(
      'LEDGER_DATABASE_CONFLICT',
    );
  });
});
