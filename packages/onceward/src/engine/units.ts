/** Whole milliseconds since the Unix epoch, by the wall clock of one machine. Never a fence: clocks jump. */
export type EpochMs = number;

/** A length of time in whole milliseconds. */
export type DurationMs = number;

export const SECOND: DurationMs = 1_000;
export const MINUTE: DurationMs = 60 * SECOND;
export const HOUR: DurationMs = 60 * MINUTE;
export const DAY: DurationMs = 24 * HOUR;

export const KIB = 1_024;
export const MIB = 1_024 * KIB;
