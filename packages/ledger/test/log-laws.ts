import { describe, expect, it } from 'vitest';
import type { LedgerLog, LogRecord } from '../src/log/ledger-log.ts';

/** A log under test: a new one, and the same one as another process finds it. */
export interface LogSubject {
  open(): Promise<LedgerLog>;
  remove(): Promise<void>;
}

function entry(index: number, term = 1, text = `{"entry":${index}}`): LogRecord {
  return { index, term, text };
}

async function readAll(log: LedgerLog, from = 1): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  for await (const record of log.read(from)) records.push(record);
  return records;
}

/** What every home of the log keeps, whatever it is made of. */
export function describeLog(name: string, makeSubject: () => Promise<LogSubject>): void {
  async function withLog(work: (log: LedgerLog, subject: LogSubject) => Promise<LedgerLog>) {
    const subject = await makeSubject();
    const log = await work(await subject.open(), subject);
    await log.close();
    await subject.remove();
  }

  describe(`the log: ${name}`, () => {
    it('begins with nothing', () =>
      withLog(async (log) => {
        expect(log).toMatchObject({ lastIndex: 0, firstIndex: 1, lastTerm: 0 });
        expect(await readAll(log)).toEqual([]);
        return log;
      }));

    it('gives back what was appended, in order, from any index, here and to the next who opens it', () =>
      withLog(async (log, subject) => {
        const entries = [entry(1), entry(2, 1, '"ü€😀\\u0000\n"'), entry(3, 4), entry(4, 4)];
        for (const record of entries) expect(await log.append(record)).toEqual({ appended: true });
        for (const found of [log, await reopened(log, subject)]) {
          expect(found).toMatchObject({ lastIndex: 4, lastTerm: 4, firstIndex: 1 });
          if (found === log) continue;
          expect(await readAll(found)).toEqual(entries);
          expect(await readAll(found, 3)).toEqual(entries.slice(2));
          expect(await readAll(found, 5)).toEqual([]);
          return found;
        }
        return log;
      }));

    it('takes many at once in the order of the calls', () =>
      withLog(async (log) => {
        const entries = Array.from({ length: 200 }, (_, at) => entry(at + 1));
        const results = await Promise.all(entries.map((record) => log.append(record)));
        expect(results.every(({ appended }) => appended)).toBe(true);
        expect(await readAll(log)).toEqual(entries);
        return log;
      }));

    it('does not append at an index that is taken or leaves a gap, and writes nothing', () =>
      withLog(async (log, subject) => {
        await log.append(entry(1));
        // The second is on its way while the others come.
        const second = log.append(entry(2));
        for (const wrong of [entry(2), entry(1), entry(4), entry(2, 1, '"other"')]) {
          expect(await log.append(wrong)).toEqual({ appended: false, term: 1 });
        }
        expect(await second).toEqual({ appended: true });
        expect(await log.append(entry(3))).toEqual({ appended: true });
        const again = await reopened(log, subject);
        expect(await readAll(again)).toEqual([entry(1), entry(2), entry(3)]);
        return again;
      }));

    it('does not append for a leader whose term is over, and reports the term', () =>
      withLog(async (log, subject) => {
        await log.append(entry(1, 1));
        await log.append(entry(2, 7));
        expect(await log.append(entry(3, 6))).toEqual({ appended: false, term: 7 });
        const again = await reopened(log, subject);
        expect(await again.append(entry(3, 6))).toEqual({ appended: false, term: 7 });
        expect(await again.append(entry(3, 7))).toEqual({ appended: true });
        return again;
      }));

    it('takes an entry of the greatest length', () =>
      withLog(async (log) => {
        const long = entry(1, 1, JSON.stringify('x'.repeat(log.maxEntryLength - 2)));
        expect(await log.append(long)).toEqual({ appended: true });
        expect(await log.append(entry(2))).toEqual({ appended: true });
        expect(await readAll(log)).toEqual([long, entry(2)]);
        return log;
      }));

    it('forgets no more than it is asked to, and goes on behind it', () =>
      withLog(async (log, subject) => {
        const text = JSON.stringify('x'.repeat(1_000));
        const entries = Array.from({ length: 100 }, (_, at) => entry(at + 1, 1, text));
        for (const record of entries) await log.append(record);
        await log.trim(60);
        expect(log.firstIndex).toBeLessThanOrEqual(61);
        expect(log.lastIndex).toBe(100);
        expect(await readAll(log)).toEqual(entries.slice(log.firstIndex - 1));
        const { firstIndex } = log;
        const again = await reopened(log, subject);
        expect(again).toMatchObject({ firstIndex, lastIndex: 100 });
        expect(await again.append(entry(101))).toEqual({ appended: true });
        expect((await readAll(again, 90)).map(({ index }) => index)).toEqual([
          90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101,
        ]);
        return again;
      }));
  });
}

async function reopened(log: LedgerLog, subject: LogSubject): Promise<LedgerLog> {
  await log.close();
  return subject.open();
}
