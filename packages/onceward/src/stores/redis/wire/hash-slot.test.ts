import { describe, expect, it } from 'vitest';
import { slotOf } from './hash-slot.ts';

describe('the hash slot of a key', () => {
  it.each([
    ['123456789', 0x31c3],
    ['foo', 12_182],
    ['onceward:{foo}', 12_182],
    ['{foo}{bar}', 12_182],
    ['{foo', slotOf('x{{foo}')],
  ])('of %s is %i', (key, slot) => {
    expect(slotOf(key)).toBe(slot);
  });

  it('takes a key with empty braces as a whole', () => {
    expect(slotOf('{}foo')).not.toBe(slotOf('foo'));
    expect(slotOf('{}foo')).not.toBe(slotOf('{}bar'));
  });
});
