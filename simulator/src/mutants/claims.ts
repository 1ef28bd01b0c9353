import { inEngine, type Mutant } from './mutant.ts';

/** Who may run, and when. */
export const CLAIMS: readonly Mutant[] = [
  {
    name: 'a lease that holds is ignored',
    breaks: 'E5',
    edits: [inEngine('decide.ts', 'return orphaned || record.leaseUntil <= now;', 'return true;')],
  },
  {
    name: 'leases are written by a clock that the store does not share',
    breaks: 'E5',
    edits: [
      inEngine(
        'engine-clock.ts',
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
        'engine-clock.ts',
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
        'straight-run.ts',
        "claiming.swap = startSwap(this.#parts, 'claim', policy, id, expected, next, this);",
        "if (expected === null) this.succeeded({ won: true, revision: 1 });\n      else startSwap(this.#parts, 'claim', policy, id, expected, next, this);",
      ),
    ],
  },
  {
    name: 'an effect that must not be repeated is taken over',
    breaks: 'E6',
    edits: [
      inEngine(
        'decide.ts',
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
        'decide.ts',
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
        'record-codec.ts',
        'if (view.getUint32(CHECKSUM_AT, true) !== checksum(id, view, 0, bytes.length)) return null;',
        '',
      ),
    ],
  },
  {
    name: 'claims of an earlier life are trusted',
    breaks: 'E6',
    edits: [
      inEngine('parts.ts', 'orphaned: born !== null && stored.revision < born', 'orphaned: false'),
    ],
  },
  {
    name: 'heartbeats are never sent',
    breaks: 'E5',
    edits: [inEngine('claim.ts', '    this.#heartbeat = new Heartbeat(this);\n', '    return;\n')],
  },
  {
    name: 'an effect begins under a claim that could have lapsed',
    breaks: 'E5',
    edits: [inEngine('attempt.ts', ' || !claim.isFresh;', ' === true;')],
  },
  {
    name: 'an effect begins though its caller has left',
    breaks: 'E4',
    edits: [inEngine('attempt.ts', 'return operation.signal?.aborted || !claim', 'return !claim')],
  },
  {
    name: "a lost reply is taken for a claim, though the record may be another's",
    breaks: 'E1',
    edits: [
      inEngine(
        'approach.ts',
        'if (!isHeldBy(found, record.owner)) return found;',
        'if (found === null) return found;',
      ),
    ],
  },
  {
    name: "taking a claim back removes another's",
    breaks: 'E5',
    edits: [
      inEngine(
        'approach.ts',
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
        'approach.ts',
        "if (visit.ran) return bare(refuse(parts, operation.id, 'fence_lost', RETRY_SOON));",
        '',
      ),
    ],
  },
  {
    name: 'a claim that was lost on the straight way runs all the same',
    breaks: 'E1',
    edits: [
      inEngine(
        'approach.ts',
        'if (!isHeldBy(current, record.owner)) return current;',
        'if (current === null) return current;',
      ),
    ],
  },
  {
    name: 'an arrival that has run on the straight way forgets it',
    breaks: 'E1',
    edits: [inEngine('straight-run.ts', 'const ran = this.#claim !== null;', 'const ran = false;')],
  },
  {
    name: 'an attempt that gives back forgets the lost attempt before it',
    breaks: 'E3',
    edits: [
      inEngine(
        'transitions.ts',
        'record.attempt > 1 || (mayHaveActed',
        '(record.attempt === 1 && mayHaveActed',
      ),
    ],
  },
  {
    name: 'an effect that may have happened frees its key when it throws',
    breaks: 'E3',
    edits: [
      inEngine('transitions.ts', "(mayHaveActed && record.onLapse === 'take_over')", 'false'),
    ],
  },
];
