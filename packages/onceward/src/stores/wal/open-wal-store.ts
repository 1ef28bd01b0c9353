import { OncewardError } from '../../engine/errors.ts';
import { refuseUnknown } from '../../engine/known-options.ts';
import { KIB, MIB } from '../../engine/units.ts';
import { type Damage, type FileSystem, openSegmentLog } from '../../segment-log/index.ts';
import { RecordTable } from './record-table.ts';
import { WalStore } from './wal-store.ts';

export interface WalStoreOptions {
  /** The folder of the store, of its own; created where it is missing. */
  readonly directory: string;
  /** The longest record accepted; 2 MiB by default. */
  readonly maxRecordBytes?: number;
  /** The size of one file of the log; 64 MiB by default. */
  readonly segmentBytes?: number;
  /** Called for every damaged place, while opening and later. */
  readonly onDamage?: (damage: Damage) => void;
  /**
   * Open although records are lost. Damaged records whose id is readable need no such leave: they are kept as they
   * are, and come back as in doubt. For the others the store refuses to open, because it could not distinguish a lost
   * record from one that never was, and an operation might happen twice.
   */
  readonly acceptDamage?: boolean;
  readonly fileSystem?: FileSystem;
}

const DEFAULTS = { maxRecordBytes: 2 * MIB, segmentBytes: 64 * MIB } as const;
const KNOWN = {
  directory: true,
  maxRecordBytes: true,
  segmentBytes: true,
  onDamage: true,
  acceptDamage: true,
  fileSystem: true,
} satisfies Record<keyof WalStoreOptions, true>;
const LOG_KIND = 'records';
/** Offsets in the index are 32 bits wide, and a segment may grow beyond its size by one batch. */
const SEGMENT_BYTES_RANGE = { least: 4 * KIB, most: 1_024 * MIB } as const;

/** Opens the embedded store. Only one process can have it open; the lock of one that died is taken over. */
export async function openWalStore(options: WalStoreOptions): Promise<WalStore> {
  refuseUnknown('the wal store', options, KNOWN);
  const { directory, fileSystem, acceptDamage = false, onDamage = () => undefined } = options;
  const { maxRecordBytes, segmentBytes } = { ...DEFAULTS, ...options };
  assertInRange('maxRecordBytes', maxRecordBytes, 1, 256 * MIB);
  assertInRange('segmentBytes', segmentBytes, SEGMENT_BYTES_RANGE.least, SEGMENT_BYTES_RANGE.most);
  if (typeof directory !== 'string' || directory === '') {
    throw new OncewardError('ONCE_INVALID_CONFIG', 'directory must name the folder of the store.');
  }
  const table = new RecordTable();
  const log = await openSegmentLog({
    directory,
    kind: LOG_KIND,
    replay: table,
    segmentBytes,
    acceptDamage,
    resumesWithRoom: true,
    ...(fileSystem ? { fileSystem } : {}),
  });
  return new WalStore(log, table, maxRecordBytes, 2 * segmentBytes, onDamage);
}

function assertInRange(name: string, value: number, least: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return;
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `${name} is ${value}; it must be a whole number from ${least} to ${most}.`,
  );
}
