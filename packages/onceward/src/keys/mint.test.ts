import { describe, expect, it } from 'vitest';
import { checkKey, jobKeys, mintUlid, mintUuid, parseJobKey, ulidMinter } from './index.ts';

describe('minted keys', () => {
  it('[C1] a minted UUID is of version 4 and fits the profiles http, sync and ledger', () => {
    for (let i = 0; i < 200; i += 1) {
      const key = mintUuid();
      for (const profile of ['http', 'sync', 'ledger'] as const) {
        expect(checkKey(profile, key)).toEqual({ ok: true, key });
      }
    }
  });

  it('[C1] minted keys do not repeat', () => {
    const keys = Array.from({ length: 2_000 }, () => [mintUuid(), mintUlid()]).flat();
    expect(new Set(keys).size).toBe(4_000);
  });

  it('[C1] minted keys draw on the bytes they are given, all of them', () => {
    const zeros = (length: number) => new Uint8Array(length);
    const ones = (length: number) => new Uint8Array(length).fill(255);
    expect(mintUuid(zeros)).toBe('00000000-0000-4000-8000-000000000000');
    expect(mintUuid(ones)).toBe('ffffffff-ffff-4fff-bfff-ffffffffffff');
    expect(ulidMinter({ now: () => 0, randomBytes: ones })()).toBe('0000000000ZZZZZZZZZZZZZZZZ');
  });

  it('[C1] a ULID spells its millisecond in the first ten digits', () => {
    const mint = ulidMinter({ now: () => 1_469_918_176_385 });
    expect(mint().slice(0, 10)).toBe('01ARYZ6S41');
    expect(checkKey('http', mint()).ok).toBe(true);
  });

  it('[C1] ULIDs sort as minted within a millisecond and when the clock steps back', () => {
    const clock = [5, 5, 5, 9, 3, 3, 9, 10];
    const mint = ulidMinter({ now: () => clock.shift() ?? 11 });
    const keys = Array.from({ length: 9 }, mint);
    expect(keys).toEqual([...keys].sort());
    expect(new Set(keys).size).toBe(9);
  });

  it('[C1] a ULID whose random part is used up moves on to the next millisecond', () => {
    const mint = ulidMinter({ now: () => 0, randomBytes: (n) => new Uint8Array(n).fill(255) });
    mint();
    expect(mint()).toBe('00000000010000000000000000');
  });

  it('[C1] job keys of one process share a nonce and count up; the next process has another nonce', () => {
    const life = jobKeys('host1.dc1:12345');
    const first = parseJobKey(life.next());
    const second = parseJobKey(life.next());
    const reborn = parseJobKey(jobKeys('host1.dc1:12345', { firstSequence: 3n }).next());
    if (!first.ok || !second.ok || !reborn.ok) throw new Error('minted a key it cannot parse');
    expect([first, second, reborn].map((key) => key.parts.sequence)).toEqual([1n, 2n, 3n]);
    expect(second.parts.nonce).toBe(first.parts.nonce);
    expect(reborn.parts.nonce).not.toBe(first.parts.nonce);
  });

  it('[C1] job keys refuse a client id or a sequence outside of the limits', () => {
    expect(() => jobKeys('')).toThrow(/1 to 200/);
    expect(() => jobKeys('c', { firstSequence: 2n ** 64n }).next()).toThrow(/2\^64-1/);
  });
});
