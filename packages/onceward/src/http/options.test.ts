import { expect, it } from 'vitest';
import { memoryStore } from '../stores/memory/index.ts';
import { HttpGuard } from './guard.ts';
import type { HttpOptions } from './options.ts';

const good = {
  store: memoryStore(),
  scopeFrom: () => 'ada',
  effect: { kind: 'external', onLapse: 'in_doubt' },
} as const;

it('[H14] store, scopeFrom and effect have no default, and are asked for by name', () => {
  expect(() => new HttpGuard(good)).not.toThrow();
  for (const name of ['store', 'scopeFrom', 'effect'] as const) {
    const { [name]: _left, ...rest } = good;
    expect(() => new HttpGuard(rest as HttpOptions<unknown>)).toThrow(`${name} is missing`);
  }
});

it('[E7] an external effect says what a lost attempt means', () => {
  const effect = { kind: 'external' } as never;
  expect(() => new HttpGuard({ ...good, effect })).toThrow('effect.onLapse');
  const transaction = { kind: 'transaction' } as never;
  expect(() => new HttpGuard({ ...good, effect: transaction })).toThrow('effect.transact');
});

it('a bad value is refused with its name and what is allowed', () => {
  const bad: [Partial<HttpOptions<unknown>>, string][] = [
    [{ mode: 'on' as never }, 'mode is "on"; it must be one of off, observe, enforce'],
    [{ sampleRate: 2 }, 'sampleRate is 2; it must be a number from 0 to 1'],
    [{ streams: 'yes' as never }, 'streams is "yes"'],
    [{ notRetained: 'no' as never }, 'notRetained is "no"'],
    [{ profile: 'ftp' as never }, 'profile is "ftp"'],
    [{ policy: { leaseMs: -1 } }, 'leaseMs is -1'],
    [{ maxBodyBytes: -1 }, 'maxBodyBytes is -1'],
    [{ abandonAfterMs: Number.NaN }, 'abandonAfterMs is NaN'],
    [{ methods: ['post'] }, 'methods holds "post"'],
  ];
  for (const [change, message] of bad) {
    expect(() => new HttpGuard({ ...good, ...change } as HttpOptions<unknown>)).toThrow(message);
  }
});

it('[H6] the profiles bring their windows', () => {
  const minutes = (profile: 'http' | 'sync') => {
    const { policy } = new HttpGuard({ ...good, profile }).settings;
    return [policy.leaseMs, policy.waitMs, policy.keepCommittedMs].map((ms) => ms / 60_000);
  };
  expect(minutes('http')).toEqual([1, 2 / 60, 5]);
  expect(minutes('sync')).toEqual([1, 0, 24 * 60]);
});

it('[H22] the profile stripe keeps answers and failures for 24 hours and does not wait', () => {
  const { policy } = new HttpGuard({ ...good, profile: 'stripe' }).settings;
  const day = 24 * 60 * 60_000;
  expect(policy).toMatchObject({ waitMs: 0, keepCommittedMs: day, keepRejectedMs: day });
});

it('[H9] a store of small records is asked for no more than it can hold', () => {
  const store = memoryStore({ maxRecordBytes: 64 * 1_024 });
  expect(new HttpGuard({ ...good, store }).settings.maxKeptBytes).toBe(60 * 1_024);
  expect(new HttpGuard(good).settings.maxKeptBytes).toBe(1_048_576);
});

it('[E8] doors on one store share one engine', () => {
  expect(new HttpGuard(good).settings.engine).toBe(new HttpGuard(good).settings.engine);
});
