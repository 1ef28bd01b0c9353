import { DEFAULT_SETTINGS, type LedgerSettings, type MachineSettings } from '@onceward/ledger';
import {
  fraction,
  type Kind,
  oneOf,
  type Setting,
  wholeNumber,
  yesOrNo,
} from '../config/setting.ts';
import type { Settings } from '../config/settings.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const MIB = 1_048_576;

function setting<T>(
  name: string,
  kind: Kind<T>,
  initial: NoInfer<T>,
  about: string,
): Setting<T> & { readonly kind: Kind<T> } {
  return { name, kind: kind as Kind<T & {}>, initial, about };
}

/** One that the ledger keeps: unset, it goes by its own; set to something else, it does not open. */
function kept<T>(
  name: string,
  kind: Kind<T>,
  initial: NoInfer<T>,
  about: string,
): Setting<T | null> {
  const otherwise = `Unset: what the ledger was made with, ${initial} for a new one. See \`ledger-settings\`.`;
  return { name, kind: kind as Kind<T & {}>, initial: null, about: `${about} ${otherwise}` };
}

/** The settings of the ledger, in the units of their names. */
export const ledgerSettings = {
  ledger: setting('LEDGER_ENABLED', yesOrNo(), true, 'Whether `serve` serves the ledger.'),
  ledgerGrpcPort: {
    name: 'LEDGER_GRPC_PORT',
    flag: 'grpc-port',
    kind: wholeNumber(0, 65_535),
    initial: null,
    about: 'Port of the ledger for gRPC. Unset: the one after PORT, or a free one if PORT is 0.',
  } as Setting<number | null>,
  ledgerTtlHours: kept(
    'LEDGER_IDEMPOTENCY_TTL_HOURS',
    fraction(0.001, 8_784),
    DEFAULT_SETTINGS.idempotencyTtlMs / HOUR_MS,
    'How long the key of a transaction is remembered.',
  ),
  ledgerCleanupMinutes: kept(
    'LEDGER_IDEMPOTENCY_CLEANUP_INTERVAL_MIN',
    fraction(0.01, 10_080),
    DEFAULT_SETTINGS.idempotencyCleanupMs / MINUTE_MS,
    'How often keys beyond that window are cleared away.',
  ),
  ledgerDatabaseConflict: kept(
    'LEDGER_DATABASE_CONFLICT',
    oneOf('rollback', 'reject_duplicate'),
    DEFAULT_SETTINGS.databaseConflict,
    'What a key that is already committed undoes: its whole batch, or nothing but itself.',
  ) as Setting<LedgerSettings['databaseConflict'] | null>,
  ledgerBatchSize: setting(
    'LEDGER_BATCH_SIZE',
    wholeNumber(1, 10_000),
    DEFAULT_SETTINGS.batchSize,
    'The most transactions in one batch.',
  ),
  ledgerBatchTimeoutMs: setting(
    'LEDGER_BATCH_TIMEOUT_MS',
    wholeNumber(0, 10_000),
    DEFAULT_SETTINGS.batchTimeoutMs,
    'The longest that a transaction waits for its batch to fill while the disk is busy.',
  ),
  ledgerEvictionInterval: kept(
    'LEDGER_EVICTION_INTERVAL',
    wholeNumber(1, 2 ** 40),
    DEFAULT_SETTINGS.evictionInterval,
    'Silent clients are looked for at every log index that this divides.',
  ),
  ledgerClientTtlSeconds: kept(
    'LEDGER_CLIENT_TTL_SECONDS',
    wholeNumber(1, 2 ** 40),
    DEFAULT_SETTINGS.clientTtlMs / SECOND_MS,
    'How long the sequence of a silent client is remembered.',
  ),
  ledgerNearTierEntries: setting(
    'LEDGER_NEAR_TIER_ENTRIES',
    wholeNumber(0, 10_000_000),
    DEFAULT_SETTINGS.nearTierEntries,
    'Answers of sequenced writes that are kept in memory for retries.',
  ),
  ledgerCheckpointMib: setting(
    'LEDGER_CHECKPOINT_MIB',
    wholeNumber(1, 4_096),
    DEFAULT_SETTINGS.checkpointBytes / MIB,
    'How much log there may be behind the last checkpoint; bounds what a restart replays.',
  ),
  ledgerSnapshotMib: setting(
    'LEDGER_SNAPSHOT_MIB',
    wholeNumber(1, 65_536),
    DEFAULT_SETTINGS.snapshotBytes / MIB,
    'How much log is kept behind the last snapshot, from which a damaged state is rebuilt.',
  ),
  ledgerHistoryMib: setting(
    'LEDGER_HISTORY_MIB',
    wholeNumber(1, 2 ** 40),
    DEFAULT_SETTINGS.historyBytes / MIB,
    'Room for the blocks that reads and proofs need. Those within the window of keys are always kept.',
  ),
} as const;

/** Those of the state machine that someone has set. */
export function givenMachineSettings(settings: Settings): Partial<MachineSettings> {
  const given = {
    idempotencyTtlMs: inMs(settings.ledgerTtlHours, HOUR_MS),
    idempotencyCleanupMs: inMs(settings.ledgerCleanupMinutes, MINUTE_MS),
    databaseConflict: settings.ledgerDatabaseConflict,
    evictionInterval: settings.ledgerEvictionInterval,
    clientTtlMs: inMs(settings.ledgerClientTtlSeconds, SECOND_MS),
  };
  const isGiven = ([, value]: [string, unknown]) => value !== null;
  return Object.fromEntries(Object.entries(given).filter(isGiven)) as Partial<MachineSettings>;
}

function inMs(value: number | null, unit: number): number | null {
  return value === null ? null : Math.round(value * unit);
}

/** The same for the ledger itself, which counts in milliseconds and bytes. */
export function ledgerOptions(settings: Settings): Partial<LedgerSettings> {
  return {
    ...givenMachineSettings(settings),
    batchSize: settings.ledgerBatchSize,
    batchTimeoutMs: settings.ledgerBatchTimeoutMs,
    nearTierEntries: settings.ledgerNearTierEntries,
    checkpointBytes: settings.ledgerCheckpointMib * MIB,
    snapshotBytes: settings.ledgerSnapshotMib * MIB,
    historyBytes: settings.ledgerHistoryMib * MIB,
  };
}
