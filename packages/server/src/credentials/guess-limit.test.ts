import { describe, expect, it } from 'vitest';
import { GuessLimit, networkOf } from './guess-limit.ts';

const from = (remoteAddress: string) => ({ remoteAddress });

describe('[L6] the limit of wrong guesses', () => {
  it('is for one address and one key, and refills with time', () => {
    let now = 0;
    const limit = new GuessLimit(() => now);
    for (let guess = 0; guess < 20; guess += 1) limit.note(from('10.0.0.1'), 'ak_a');
    expect(limit.isSpent(from('10.0.0.1'), 'ak_a')).toBe(true);
    expect(limit.isSpent(from('10.0.0.1'), 'ak_b')).toBe(false);
    expect(limit.isSpent(from('10.0.0.2'), 'ak_a')).toBe(false);
    now = 1_000;
    expect(limit.isSpent(from('10.0.0.1'), 'ak_a')).toBe(false);
    limit.note(from('10.0.0.1'), 'ak_a');
    expect(limit.isSpent(from('10.0.0.1'), 'ak_a')).toBe(true);
  });

  it('is for one address and all keys too', () => {
    const limit = new GuessLimit(() => 0);
    for (let guess = 0; guess < 100; guess += 1) limit.note(from('10.0.0.1'), `ak_${guess}`);
    expect(limit.isSpent(from('10.0.0.1'), 'ak_new')).toBe(true);
    expect(limit.isSpent(from('10.0.0.2'), 'ak_new')).toBe(false);
  });

  it('takes the addresses of one IPv6 network for one', () => {
    expect(networkOf('2001:db8::1')).toBe(networkOf('2001:db8:0:0:ffff::2'));
    expect(networkOf('2001:db8:1::1')).not.toBe(networkOf('2001:db8:2::1'));
    expect(networkOf('::ffff:10.0.0.1')).not.toBe(networkOf('::ffff:10.0.0.2'));
  });
});
