import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeMessage, Message } from './protobuf.ts';

describe('the wire format', () => {
  it('gives back numbers up to 2^53 and any bytes', () => {
    const numbers = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
    fc.assert(
      fc.property(numbers, fc.uint8Array(), numbers, (first, bytes, second) => {
        const message = new Message(
          Buffer.from(encodeMessage([1, first], [2, bytes], [300, second])),
        );
        expect(message.number(1)).toBe(first);
        expect(Buffer.compare(message.bytes(2), Buffer.from(bytes))).toBe(0);
        expect(message.number(300)).toBe(second);
      }),
    );
  });

  it('writes a known message as the format has it', () => {
    // Field 1 is the number 150, field 2 the text "testing": the examples everybody knows.
    const message = encodeMessage([1, 150], [2, Buffer.from('testing')]);
    expect(Buffer.from(message).toString('hex')).toBe('089601120774657374696e67');
  });

  it('keeps repeated messages in order and leaves out what is zero', () => {
    const inner = (value: number) => encodeMessage([1, value]);
    const message = new Message(Buffer.from(encodeMessage([2, inner(7)], [2, inner(8)], [3, 0])));
    expect(message.messages(2).map((one) => one.number(1))).toEqual([7, 8]);
    expect(message.number(3)).toBe(0);
  });

  it('refuses a message that is cut off', () => {
    const whole = Buffer.from(encodeMessage([1, 70_000], [2, Buffer.from('some bytes')]));
    for (const length of [1, 2, 5, whole.length - 1]) {
      expect(() => new Message(whole.subarray(0, length))).toThrow('cut off');
    }
  });
});
