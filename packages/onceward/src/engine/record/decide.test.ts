import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OperationRecord, PendingRecord } from '../record.ts';
import { type Current, type Decision, decide, type Time } from './decide.ts';

const NOW = 1_000_000;
const time: Time = { leases: NOW, retention: NOW, latest: NOW };
const rules = { waitMs: 1, keepCommittedMs: 500_000 };
const base = {
  fingerprint: 'f',
  owner: 'o',
  attempt: 2,
  createdAt: NOW - 100,
  steps: [{ name: 's', bytes: Uint8Array.of(1) }],
  fence: 5,
};
const outcome = { contentType: 't', codec: 0, size: 0, bytes: new Uint8Array(0) };

function pending(overrides: Partial<PendingRecord> = {}): PendingRecord {
  return {
    ...base,
    state: 'pending',
    leaseUntil: NOW + 1,
    onLapse: 'in_doubt',
    keepUntil: NOW + 1_000,
    ...overrides,
  };
}

function settled(state: 'committed' | 'rejected', keepUntil: number): OperationRecord {
  return { ...base, state, outcome, settledAt: NOW - 50, keepUntil, resolution: null };
}

const inDoubt: OperationRecord = { ...base, state: 'in_doubt', reason: 'lease_lapsed', since: 1 };

function at(record: OperationRecord | null, orphaned = false): Current {
  return { revision: 9, record, orphaned };
}

function summary(decision: Decision): string {
  if (decision.kind === 'claim') {
    return `claim attempt ${decision.attempt} over ${decision.expected}, ${decision.steps.length} steps`;
  }
  return decision.kind === 'refuse' ? `refuse ${decision.reason}` : decision.kind;
}

/** Every state that a record can be in × every arrival × waiting allowed or not. */
const table: readonly [string, Current | null, same: string, other: string, noWait?: string][] = [
  ['nothing', null, 'claim attempt 1 over null, 0 steps', 'claim attempt 1 over null, 0 steps'],
  ['a live claim', at(pending()), 'wait', 'refuse mismatch', 'refuse in_progress'],
  [
    'a live claim that may be taken over once it lapses',
    at(pending({ onLapse: 'take_over' })),
    'wait',
    'refuse mismatch',
    'refuse in_progress',
  ],
  [
    'a lapsed claim that may have happened',
    at(pending({ leaseUntil: NOW })),
    'doubt',
    'refuse mismatch',
  ],
  [
    'a lapsed claim that is safe to repeat',
    at(pending({ leaseUntil: NOW, onLapse: 'take_over' })),
    'claim attempt 3 over 9, 1 steps',
    'refuse mismatch',
  ],
  [
    'a lapsed claim that nobody took over in time',
    at(pending({ leaseUntil: NOW - 2, keepUntil: NOW, onLapse: 'take_over' })),
    'claim attempt 1 over 9, 0 steps',
    'claim attempt 1 over 9, 0 steps',
  ],
  [
    'a lapsed claim that may have happened, long ago',
    at(pending({ leaseUntil: 1, keepUntil: 2 })),
    'doubt',
    'refuse mismatch',
  ],
  ['a claim of an earlier life', at(pending(), true), 'doubt', 'refuse mismatch'],
  [
    'a released claim with steps',
    at(pending({ leaseUntil: 0 })),
    'claim attempt 3 over 9, 1 steps',
    'refuse mismatch',
  ],
  ['a committed record', at(settled('committed', NOW + 1)), 'replay', 'refuse mismatch'],
  ['a rejected record', at(settled('rejected', NOW + 1)), 'replay', 'refuse mismatch'],
  [
    'a committed record of an earlier life',
    at(settled('committed', NOW + 1), true),
    'replay',
    'refuse mismatch',
  ],
  [
    'an expired record',
    at(settled('committed', NOW)),
    'claim attempt 1 over 9, 0 steps',
    'claim attempt 1 over 9, 0 steps',
  ],
  ['a record in doubt', at(inDoubt), 'refuse in_doubt', 'refuse mismatch'],
  ['an unreadable record', at(null), 'refuse in_doubt', 'refuse in_doubt'],
];

describe('decide', () => {
  for (const [what, current, same, other, noWait] of table) {
    it(`[E1][E2][E3][E4][E6] meets ${what}`, () => {
      const ask = (fingerprint: string, waitMs: number) =>
        summary(decide(current, { fingerprint }, { ...rules, waitMs }, time));
      expect(ask('f', 1)).toBe(same);
      expect(ask('g', 1)).toBe(other);
      expect(ask('f', 0)).toBe(noWait ?? same);
    });
  }

  it('[E2] does not forget an answer because leases go by a clock that is ahead', () => {
    const current = at(settled('committed', NOW + 1_000));
    const jumped = { leases: NOW + 1_000_000, retention: NOW, latest: NOW + 1_000_000 };
    expect(decide(current, { fingerprint: 'f' }, { ...rules, waitMs: 0 }, jumped).kind).toBe(
      'replay',
    );
  });

  it('never claims over a record that holds an answer, a doubt, or a live lease', () => {
    const records = fc.constantFrom(...table.map(([, current]) => current));
    const clock = fc.integer({ min: 1, max: 2 * NOW });
    fc.assert(
      fc.property(
        records,
        fc.constantFrom('f', 'g'),
        clock,
        clock,
        (current, print, leases, other) => {
          const retention = Math.min(leases, other);
          const latest = Math.max(leases, other);
          const time = { leases, retention, latest };
          const decision = decide(current, { fingerprint: print }, rules, time);
          if (decision.kind !== 'claim' || current === null) return;
          const record = current.record;
          expect(record).not.toBeNull();
          expect(record!.state).not.toBe('in_doubt');
          if (record!.state === 'pending') {
            expect(record!.leaseUntil <= leases || current.orphaned).toBe(true);
            expect(record!.onLapse === 'take_over' || record!.leaseUntil === 0).toBe(true);
          } else {
            expect((record as { keepUntil: number }).keepUntil).toBeLessThanOrEqual(retention);
          }
        },
      ),
    );
  });
});
