import type { AppendResult, LedgerLog, LogRecord } from '@onceward/ledger';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import { type Life, never } from './life.ts';

const LONGEST_ENTRY = 100_000;

/** The disk that the log of a ledger is on: what is appended stays, whichever process did it. */
export class LogDisk {
  readonly records: LogRecord[] = [];
  firstIndex = 1;
}

/** The log as one life of a ledger has it open. Each append takes a while, in which the process may die. */
export class SimulatedLog implements LedgerLog {
  readonly maxEntryLength = LONGEST_ENTRY;
  readonly #disk: LogDisk;
  readonly #life: Life;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  #last: Promise<unknown> = Promise.resolve();

  constructor(disk: LogDisk, life: Life, time: VirtualTime, dice: Dice) {
    this.#disk = disk;
    this.#life = life;
    this.#time = time;
    this.#dice = dice;
  }

  get firstIndex(): number {
    return this.#disk.firstIndex;
  }

  get lastIndex(): number {
    return this.#disk.records.at(-1)?.index ?? 0;
  }

  get lastTerm(): number {
    return this.#disk.records.at(-1)?.term ?? 0;
  }

  get byteLength(): number {
    return this.#disk.records.reduce((sum, { text }) => sum + text.length, 0);
  }

  append(record: LogRecord): Promise<AppendResult> {
    const appended = this.#last.then(() => this.#write(record));
    this.#last = appended;
    return appended;
  }

  async #write(record: LogRecord): Promise<AppendResult> {
    await this.#time.sleep(this.#dice.between(0, 3));
    if (!this.#life.alive) return never();
    if (record.index !== this.lastIndex + 1) throw new Error('the log has moved on');
    this.#disk.records.push(record);
    await this.#time.sleep(this.#dice.between(0, 3));
    return this.#life.alive ? { appended: true } : never();
  }

  async *read(from: number): AsyncIterable<LogRecord> {
    yield* this.#disk.records.filter(({ index }) => index >= from);
  }

  async trim(through: number): Promise<void> {
    const { records } = this.#disk;
    // The last entry shows where the log ends.
    while (records.length > 1 && records[0]!.index <= through) records.shift();
    this.#disk.firstIndex = records[0]?.index ?? this.#disk.firstIndex;
  }

  async close(): Promise<void> {}
}
