import { expect, it } from 'vitest';
import { applySettings } from '../src/pipeline/apply/apply-settings.ts';
import { FIRST_SETTINGS, Machine } from '../src/pipeline/machine.ts';
import type { JournalRequest, SettingsRequest } from '../src/rules/request.ts';
import { requestText } from '../src/rules/request-text.ts';

const HOUR = 3_600_000;

function afterRaise(flag: Pick<SettingsRequest, 'notes_raise'>): Machine {
  const machine = new Machine();
  machine.adopt({ ...FIRST_SETTINGS, idempotency_ttl_ms: HOUR, hash_key: 'k' });
  machine.time = 10 * HOUR;
  const { hash_key: _hash, ...settings } = { ...machine.settings, idempotency_ttl_ms: 2 * HOUR };
  applySettings(machine, { kind: 'settings', actor: 'system:test', settings, ...flag }, '{}', []);
  return machine;
}

it('[L9] a change of settings that an earlier version wrote leaves the state that it left then', () => {
  expect(afterRaise({}).keysSince()).toEqual({ transactions: 0, writes: 0 });
  expect(afterRaise({ notes_raise: true }).keysSince()).toEqual({
    transactions: 9 * HOUR,
    writes: 0,
  });
  expect(afterRaise({}).seal()).not.toBe(afterRaise({ notes_raise: true }).seal());
});

it('[L9] a transaction without a time of its own has the text that it had, and one with it gets it back', () => {
  const entry = {
    sequence: 1,
    type: 'PAYMENT',
    asset: 'USD',
    amount: '1',
    debit: { account_id: 'acct_0', balance_policy: 'NONE' },
    credit: { account_id: 'acct_1', balance_policy: 'NONE' },
  };
  const names = { kind: 'journal', actor: 'client:shop', credential: 'ak', key: 'a' };
  for (const since of [{}, { first_sent: 1_234 }]) {
    const request = { ...names, ...since, entries: [entry] } as unknown as JournalRequest;
    expect(requestText(request)).toBe(JSON.stringify(request));
    expect(JSON.parse(requestText(request))).toEqual(request);
  }
});
