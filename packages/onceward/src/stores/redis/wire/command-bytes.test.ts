import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Argument, Command } from '../redis-driver.ts';
import { CommandBytes } from './command-bytes.ts';

/** The protocol, written down once more in the plainest way. */
function spelled(command: Command): Buffer {
  const parts: Buffer[] = [Buffer.from(`*${command.length}\r\n`)];
  for (const argument of command) {
    const bytes = Buffer.from(argument as string);
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}

const anArgument: fc.Arbitrary<Argument> = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  // Longer than a share of the slab, in text that has as many bytes as it can have.
  fc.integer({ min: 0, max: 40_000 }).map((length) => '€'.repeat(length)),
);

describe('commands in bytes', () => {
  it('are what the protocol says, and stay so when others follow', () => {
    const commands = new CommandBytes();
    fc.assert(
      fc.property(fc.array(fc.array(anArgument, { maxLength: 8 }), { maxLength: 8 }), (lists) => {
        const all = lists.map((list): Command => ['SET', ...list]);
        const encoded = all.map((command) => commands.encode(command));
        for (const [at, bytes] of encoded.entries()) {
          expect(bytes.equals(spelled(all[at]!))).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('of a value of many megabytes are one piece, and the next are short again', () => {
    const commands = new CommandBytes();
    const long: Command = ['SET', 'key', Buffer.alloc(9_000_000, 7)];
    const encoded = commands.encode(long);
    expect(encoded.equals(spelled(long))).toBe(true);
    expect(commands.encode(['PING']).toString()).toBe('*1\r\n$4\r\nPING\r\n');
  });
});
