import { inEngine, type Mutant } from './mutant.ts';

/** Who may run, and when. */
export const CLAIMS: readonly Mutant[] = [
  {
    name: 'a lease that holds is ignored',
    breaks: 'E5',
    edits: [
      inEngine('record/decide.ts', 'return orphaned || record.leaseUntil <= now;', 'return true;'),
    ],
  },
  {
    name: 'leases are written by a clock that the store does not share',
    breaks: 'E5',
    edits: [
      inEngine(
        'store-access/engine-clock.ts',
        'if (this.#store === null) return this.#world.now();\n',
        'return this.#world.now();\n',
      ),
    ],
  },
  {
    name: 'leases lapse by a clock that the store does not share',
    breaks: 'E6',
    edits: [
      inEngine(
        'store-access/engine-clock.ts',
        'const leases = this.#shared(elapsed);',
        'const leases = this.#world.now();',
      ),
    ],
  },
  {
    name: 'the near tier grants a claim',
    breaks: 'E8',
    edits: [
      inEngine(
        'run/driver.ts',
        "claiming.swap = startSwap(this.parts, 'claim', policy, id, expected, next, this);",
        "if (expected === null) this.succeeded({ won: true, revision: 1 });\n    else startSwap(this.parts, 'claim', policy, id, expected, next, this);",
      ),
    ],
  },
  {
    name: 'an effect that must not be repeated is taken over',
    breaks: 'E6',
    edits: [
      inEngine(
        'record/decide.ts',
        "return isReleased(record) || record.onLapse === 'take_over'\n",
        'return true\n',
      ),
    ],
  },
  {
    name: 'an unreadable record counts as absent',
    breaks: 'E10',
    edits: [
      inEngine(
        'record/decide.ts',
        "if (record === null) return { kind: 'refuse', reason: 'in_doubt', revision, record: null };",
        "if (record === null) return { kind: 'claim', expected: revision, attempt: 1, steps: [] };",
      ),
    ],
  },
  {
    name: 'the checksum of a record is not checked',
    breaks: 'E10',
    edits: [
      inEngine(
        'record/record-codec.ts',
        'if (view.getUint32(CHECKSUM_AT, true) !== checksum(id, view, 0, bytes.length)) return null;',
        '',
      ),
    ],
  },
  {
    name: 'claims of an earlier life are trusted',
    breaks: 'E6',
    edits: [
      inEngine(
        'store-access/store-calls.ts',
        'orphaned: born !== null && stored.revision < born',
        'orphaned: false',
      ),
    ],
  },
  {
    name: 'heartbeats are never sent',
    breaks: 'E5',
    edits: [
      inEngine('run/claim.ts', '    this.#heartbeat = new Heartbeat(this);\n', '    return;\n'),
    ],
  },
  {
    name: 'an effect begins under a claim that could have lapsed',
    breaks: 'E5',
    edits: [inEngine('run/driver.ts', ' || !claim.isFresh)', ' === true)')],
  },
  {
    name: 'an effect begins though its caller has left',
    breaks: 'E4',
    edits: [inEngine('run/driver.ts', 'if (operation.signal?.aborted || !claim', 'if (!claim')],
  },
  {
    name: "a lost reply is taken for a claim, though the record may be another's",
    breaks: 'E1',
    edits: [
      inEngine(
        'run/driver.ts',
        '(current) => this.#meet(current),',
        '(current) => (current === null ? this.#meet(current) : this.#hold(current.revision)),',
      ),
    ],
  },
  {
    name: "taking a claim back removes another's",
    breaks: 'E5',
    edits: [
      inEngine(
        'run/lost-claim.ts',
        'if (!isDoubted && !isHeldBy(current, record.owner)) return isLast;',
        "if (current?.record?.state !== 'pending') return isLast;",
      ),
    ],
  },
  {
    name: 'an arrival that lost its claim runs again',
    breaks: 'E1',
    edits: [
      inEngine(
        'run/driver.ts',
        "if (this.hasRun) return this.#refuse('fence_lost', RETRY_SOON);",
        '',
      ),
    ],
  },
  {
    name: 'a claim that was lost runs all the same',
    breaks: 'E1',
    edits: [
      inEngine(
        'run/driver.ts',
        'if (!isHeldBy(current, this.#claiming!.record.owner)) void',
        'if (current === null) void',
      ),
    ],
  },
  {
    name: 'an arrival that has run forgets it',
    breaks: 'E1',
    edits: [inEngine('run/driver.ts', 'this.hasRun = true;', '')],
  },
  {
    name: 'an attempt that gives back forgets the lost attempt before it',
    breaks: 'E3',
    edits: [
      inEngine(
        'record/transitions.ts',
        'record.attempt > 1 || (mayHaveActed',
        '(record.attempt === 1 && mayHaveActed',
      ),
    ],
  },
  {
    name: 'an effect that may have happened frees its key when it throws',
    breaks: 'E3',
    edits: [
      inEngine(
        'record/transitions.ts',
        "(mayHaveActed && record.onLapse === 'take_over')",
        'false',
      ),
    ],
  },
];
