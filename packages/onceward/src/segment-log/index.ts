export type { LogEntry } from './batch.ts';
export type { Damage, DamagedEntry } from './damage.ts';
export { assertUnlocked } from './directory-lock.ts';
export type { DirectoryLock, FileSystem, OpenFile, OpenMode } from './file-system.ts';
export { nodeFileSystem } from './node-file-system.ts';
export { type LogReader, openSegmentLog, type SegmentLogOptions } from './open-segment-log.ts';
export type { ReadEntry } from './segment.ts';
export type { LogPosition, SegmentLog } from './segment-log.ts';
