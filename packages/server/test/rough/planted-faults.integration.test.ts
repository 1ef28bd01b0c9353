import { describe, expect, it } from 'vitest';
import type { Answer } from './answer.ts';
import { answersIn } from './answer.ts';
import { type Fault, FaultyTarget } from './faulty-target.ts';
import { byItsBytes, type Operation } from './operation.ts';
import { growthIn, runRounds } from './run-rounds.ts';
import { Told } from './told.ts';

/** What the rounds say against a server with this fault. */
async function complaintsAbout(fault: Fault): Promise<string> {
  const { failures } = await runRounds({
    make: () => new FaultyTarget(fault),
    seed: 7,
    rounds: 2,
    restartEvery: 1_000,
    maxFailures: 1,
  });
  return failures.flatMap(({ complaints }) => complaints).join('\n');
}

describe('the judge of rough traffic', () => {
  it('says nothing against a server that does what it promises', async () => {
    expect(await complaintsAbout('none')).toBe('');
  });

  it.each([
    ['runs twice', /had \d+ effects/],
    ['goes silent', /a fresh keyed request got no answer/],
    ['keeps room', /onceward_buffer_bytes is 7/],
    ['dies', /the process is gone/],
    ['logs', /the log says/],
  ] as const)('finds a server that %s', async (fault, expected) => {
    expect(await complaintsAbout(fault)).toMatch(expected);
  });

  it('finds two answers to one key that differ', () => {
    const told = new Told();
    const operation: Operation = {
      ...{ name: 'k', keyed: true, method: 'POST', target: '/', headers: [], body: '', ends: [] },
      ...{ runOf: byItsBytes, toldOnce: false },
    };
    const answer: Answer = { status: 201, head: '', body: Buffer.from('one'), whole: true };
    told.heard(operation, answer);
    told.heard(operation, answer);
    told.judge();
    expect(told.complaints).toEqual([]);
    told.heard(operation, { ...answer, body: Buffer.from('two') });
    told.judge();
    expect(told.complaints).toEqual([expect.stringContaining('as if it had run 2 times')]);
  });

  it('finds memory that grows without end', () => {
    const steady = Array.from({ length: 200 }, (_, round) => 1e8 + (round % 10) * 1e6);
    const growing = Array.from({ length: 200 }, (_, round) => 1e8 + round * 1.5e6);
    expect(growthIn(steady)).toBeNull();
    expect(growthIn(growing)).toMatch(/grew from/);
  });

  it('reads declared, chunked, interim and broken answers from one connection', () => {
    const bytes = Buffer.from(
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nab' +
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n' +
        'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf',
    );
    const read = answersIn(bytes, true).map((answer) => [answer.body.toString(), answer.whole]);
    expect(read).toEqual([
      ['ab', true],
      ['abcd', true],
      ['half', false],
    ]);
  });
});
