import { OncewardError } from 'onceward';
import type { MachineSettings as LoggedSettings } from './log/log-entry.ts';
import type { ChangeableSettings } from './rules/changeable-settings.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const MIB = 1_024 * 1_024;

/** Everything that can be set. The names in the environment are in `ENVIRONMENT`. */
export interface LedgerSettings {
  /** How long a transaction's idempotency key is remembered. */
  readonly idempotencyTtlMs: number;
  /** How often keys out of that window are cleared away, in log time. */
  readonly idempotencyCleanupMs: number;
  /**
   * `rollback`: a key that is already committed undoes its whole batch. `reject_duplicate`: only that
   * transaction.
   */
  readonly databaseConflict: 'rollback' | 'reject_duplicate';
  /** The most requests in one batch. */
  readonly batchSize: number;
  /** The longest that a request waits for its batch to fill, while the log is busy. */
  readonly batchTimeoutMs: number;
  /** Clients are checked for eviction at every log index that this divides. */
  readonly evictionInterval: number;
  /** How long a silent client's sequence is remembered. */
  readonly clientTtlMs: number;
  /** Answers kept in memory for retries of sequenced writes. */
  readonly nearTierEntries: number;
  readonly nearTierTtlMs: number;
  /** How much log there may be behind the last checkpoint: bounds the replay after a restart. */
  readonly checkpointBytes: number;
  /** How much log is kept behind the last snapshot, from which a damaged state is rebuilt. */
  readonly snapshotBytes: number;
  /** How much room blocks may take, for reads and proofs. Those within the idempotency window are always kept. */
  readonly historyBytes: number;
  /** Rows other than accounts that stay in memory. */
  readonly workingSetRows: number;
}

export const DEFAULT_SETTINGS = {
  idempotencyTtlMs: 1 * HOUR,
  idempotencyCleanupMs: 5 * MINUTE,
  databaseConflict: 'rollback',
  batchSize: 512,
  batchTimeoutMs: 5,
  evictionInterval: 1_000,
  clientTtlMs: 24 * HOUR,
  nearTierEntries: 100_000,
  nearTierTtlMs: 24 * HOUR,
  checkpointBytes: 64 * MIB,
  snapshotBytes: 256 * MIB,
  historyBytes: 4_096 * MIB,
  workingSetRows: 500_000,
} as const satisfies LedgerSettings;

type NumberSetting = {
  [K in keyof LedgerSettings]: LedgerSettings[K] extends number ? K : never;
}[keyof LedgerSettings];

interface Variable {
  readonly setting: NumberSetting;
  readonly unit: number;
  readonly least: number;
  readonly most: number;
}

/** A position in a block fits into 16 bits. */
const MAX_BATCH_SIZE = 10_000;
const MAY_BE_ZERO = new Set(['batchTimeoutMs', 'nearTierEntries']);
const CONFLICTS: readonly string[] = ['rollback', 'reject_duplicate'];
const WHOLE = { unit: 1, least: 1, most: 2 ** 40 };

/** The environment's name for each setting, with its unit there. */
export const ENVIRONMENT: Readonly<Record<string, Variable>> = {
  LEDGER_IDEMPOTENCY_TTL_HOURS: {
    setting: 'idempotencyTtlMs',
    unit: HOUR,
    least: 0.001,
    most: 8_784,
  },
  LEDGER_IDEMPOTENCY_CLEANUP_INTERVAL_MIN: {
    setting: 'idempotencyCleanupMs',
    unit: MINUTE,
    least: 0.01,
    most: 10_080,
  },
  LEDGER_BATCH_SIZE: { setting: 'batchSize', unit: 1, least: 1, most: MAX_BATCH_SIZE },
  LEDGER_BATCH_TIMEOUT_MS: { setting: 'batchTimeoutMs', unit: 1, least: 0, most: 10_000 },
  LEDGER_EVICTION_INTERVAL: { setting: 'evictionInterval', ...WHOLE },
  LEDGER_CLIENT_TTL_SECONDS: { setting: 'clientTtlMs', ...WHOLE, unit: SECOND },
  LEDGER_NEAR_TIER_ENTRIES: { setting: 'nearTierEntries', ...WHOLE, least: 0, most: 10_000_000 },
  LEDGER_CHECKPOINT_MIB: { setting: 'checkpointBytes', ...WHOLE, unit: MIB, most: 4_096 },
  LEDGER_SNAPSHOT_MIB: { setting: 'snapshotBytes', ...WHOLE, unit: MIB, most: 65_536 },
  LEDGER_HISTORY_MIB: { setting: 'historyBytes', ...WHOLE, unit: MIB },
};

/** Reads the settings that the environment names; a value that is not valid stops with the name of the setting. */
export function settingsFromEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): Partial<LedgerSettings> {
  const settings: Record<string, number | string> = {};
  for (const [name, { setting, unit, least, most }] of Object.entries(ENVIRONMENT)) {
    const text = environment[name]?.trim();
    if (text === undefined || text === '') continue;
    const value = Number(text);
    const isWhole = unit === HOUR || unit === MINUTE || Number.isInteger(value);
    if (!(value >= least && value <= most && isWhole)) {
      throw invalid(name, `must be a number from ${least} to ${most}, not "${text}"`);
    }
    settings[setting] = Math.round(value * unit);
  }
  const conflict = environment.LEDGER_DATABASE_CONFLICT?.trim();
  if (conflict !== undefined && conflict !== '') {
    if (!CONFLICTS.includes(conflict)) {
      throw invalid('LEDGER_DATABASE_CONFLICT', `must be ${CONFLICTS.join(' or ')}`);
    }
    settings.databaseConflict = conflict;
  }
  return settings as Partial<LedgerSettings>;
}

function invalid(name: string, why: string): OncewardError {
  return new OncewardError('ONCE_INVALID_CONFIG', `${name} ${why}.`);
}

/** Settings that came by code: the same care as for those of the environment. */
export function checkSettings(settings: LedgerSettings): LedgerSettings {
  for (const [name, value] of Object.entries(settings)) {
    if (!(name in DEFAULT_SETTINGS) || name === 'databaseConflict') continue;
    const least = MAY_BE_ZERO.has(name) ? 0 : 1;
    if (!(Number.isSafeInteger(value) && (value as number) >= least)) {
      throw invalid(name, `must be a whole number from ${least}`);
    }
  }
  if (settings.batchSize > MAX_BATCH_SIZE)
    throw invalid('batchSize', `must be up to ${MAX_BATCH_SIZE}`);
  if (!CONFLICTS.includes(settings.databaseConflict)) {
    throw invalid('databaseConflict', `must be ${CONFLICTS.join(' or ')}`);
  }
  return settings;
}

/** Settings of the state machine, by the name that the log has for each. They change by an entry in it. */
const MACHINE_SETTINGS = {
  idempotency_ttl_ms: 'idempotencyTtlMs',
  idempotency_cleanup_ms: 'idempotencyCleanupMs',
  database_conflict: 'databaseConflict',
  eviction_interval: 'evictionInterval',
  client_ttl_ms: 'clientTtlMs',
} as const satisfies Record<keyof ChangeableSettings, keyof LedgerSettings>;

type MachineSetting = (typeof MACHINE_SETTINGS)[keyof ChangeableSettings];

/** The settings that every replica must have alike: they change by an entry in the log. */
export type MachineSettings = Pick<LedgerSettings, MachineSetting>;

export function machineSettings(settings: LedgerSettings, hashKey: string): LoggedSettings {
  return { ...changeableSettings(settings), hash_key: hashKey };
}

export function changeableSettings(settings: MachineSettings) {
  return {
    idempotency_ttl_ms: settings.idempotencyTtlMs,
    idempotency_cleanup_ms: settings.idempotencyCleanupMs,
    database_conflict: settings.databaseConflict,
    eviction_interval: settings.evictionInterval,
    client_ttl_ms: settings.clientTtlMs,
  } satisfies ChangeableSettings;
}

/** The settings of the machine under the names that people use. */
export function settingsOf(machine: ChangeableSettings): MachineSettings {
  return {
    idempotencyTtlMs: machine.idempotency_ttl_ms,
    idempotencyCleanupMs: machine.idempotency_cleanup_ms,
    databaseConflict: machine.database_conflict,
    evictionInterval: machine.eviction_interval,
    clientTtlMs: machine.client_ttl_ms,
  };
}

/** The settings that were asked for and are not what the ledger goes by, in words. */
export function findDisagreements(given: Partial<LedgerSettings>, held: MachineSettings): string[] {
  return Object.values(MACHINE_SETTINGS)
    .filter((name) => given[name] !== undefined && given[name] !== held[name])
    .map((name) => {
      const [asked, has] = [inEnvironment(name, given[name]), inEnvironment(name, held[name])];
      return `${asked.name} is ${asked.value}, the ledger has ${has.value}`;
    });
}

function inEnvironment(setting: MachineSetting, value: unknown) {
  const found = Object.entries(ENVIRONMENT).find(([, entry]) => entry.setting === setting);
  if (found === undefined) return { name: 'LEDGER_DATABASE_CONFLICT', value };
  return { name: found[0], value: (value as number) / found[1].unit };
}
