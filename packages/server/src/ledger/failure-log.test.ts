import { StoreError } from 'onceward';
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { FailureLog } from './failure-log.ts';

it('logs a failure at once, and its repetitions as a number every ten seconds', () => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line) => lines.push(JSON.parse(line)) });
  let now = 0;
  const failures = new FailureLog(log, () => now);
  const full = new StoreError('ONCE_STORE_FAILED', 'the disk is full');
  for (let n = 0; n < 100; n += 1) failures.write(full, { route: '/transaction' });
  expect(lines).toMatchObject([{ msg: 'ledger_failed', route: '/transaction', leftOut: 0 }]);
  failures.write(new StoreError('ONCE_RECORD_UNREADABLE', 'block 7 is missing'), {});
  expect(lines[1]).toMatchObject({ err: { message: 'block 7 is missing' } });
  now = 9_999;
  failures.write(full, {});
  expect(lines).toHaveLength(2);
  now = 10_000;
  failures.write(full, { route: '/account' });
  expect(lines).toHaveLength(3);
  expect(lines[2]).toMatchObject({ route: '/account', leftOut: 100 });
});
