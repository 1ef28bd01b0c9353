import { inEngine, type Mutant } from './mutant.ts';

/** What an attempt may write, and what it may say it has written. */
export const WRITES: readonly Mutant[] = [
  {
    name: 'writes do not carry their fence',
    breaks: 'E5',
    edits: [
      inEngine(
        'claim.ts',
        'swapRecord(parts, phase, this.#policy, id, this.#revision, next);',
        'swapRecord(parts, phase, this.#policy, id, (await parts.store.read(id))?.revision ?? null, next);',
      ),
    ],
  },
  {
    name: 'the answer is given before it is durable',
    breaks: 'E2',
    edits: [
      inEngine(
        'attempt.ts',
        "if ((await claim.settle(record)) === 'lost') return 'lost';",
        'claim.settle(record).catch(() => {});',
      ),
    ],
  },
  {
    name: 'an attempt that lost gives its own answer',
    breaks: 'E5',
    edits: [
      inEngine(
        'attempt.ts',
        "if ((await claim.settle(record)) === 'lost') return 'lost';",
        'await claim.settle(record);',
      ),
    ],
  },
  {
    name: "a late commit overwrites an operator's verdict",
    breaks: 'E6',
    edits: [
      inEngine('claim.ts', "(record.state === 'pending' || record.state === 'in_doubt')", 'true'),
    ],
  },
  {
    name: 'an unrecorded answer is called recorded',
    breaks: 'E2',
    edits: [
      inEngine(
        'attempt.ts',
        'return executed(claim, settlement, false, null);',
        'return executed(claim, settlement, true, null);',
      ),
    ],
  },
  {
    name: 'an unrecorded answer is remembered',
    breaks: 'E8',
    edits: [
      inEngine(
        'attempt.ts',
        'return executed(claim, settlement, false, null);',
        'return executed(claim, settlement, false, answer);',
      ),
    ],
  },
  {
    name: 'an unknown outcome gives the claim back',
    breaks: 'E6',
    edits: [
      inEngine(
        'attempt.ts',
        "onThrow === 'in_doubt' || error instanceof OutcomeUnknown",
        "onThrow === 'in_doubt'",
      ),
    ],
  },
  {
    name: 'a finished step is run again',
    breaks: 'E14',
    edits: [
      inEngine(
        'attempt.ts',
        'const done = claim.record.steps.find((step) => step.name === name);',
        'const done = undefined;',
      ),
    ],
  },
  {
    name: 'a takeover forgets the steps',
    breaks: 'E14',
    edits: [
      inEngine(
        'decide.ts',
        'attempt: record.attempt + 1, steps: record.steps',
        'attempt: record.attempt + 1, steps: []',
      ),
    ],
  },
  {
    name: 'a step whose reply was lost is forgotten',
    breaks: 'E14',
    edits: [inEngine('claim.ts', 'this.#adopt(found);', 'this.#revision = found.revision;')],
  },
  {
    name: 'a step that could not be saved gives the claim back',
    breaks: 'E14',
    edits: [
      inEngine(
        'attempt.ts',
        "if (onLapseOf(operation.effect) === 'take_over') throw cause;",
        'throw cause;',
      ),
    ],
  },
  {
    name: 'the store issues revisions again',
    breaks: 'E5',
    edits: [
      {
        file: 'simulator/src/record-table.ts',
        find: '    this.#revision += 1;\n',
        replace: '    this.#revision = this.#records.size + 1;\n',
      },
    ],
  },
];
