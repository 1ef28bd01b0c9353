import { inEngine, type Mutant } from './mutant.ts';

/** What an attempt may write, and what it may say it has written. */
export const WRITES: readonly Mutant[] = [
  {
    name: 'writes do not carry their fence',
    breaks: 'E5',
    edits: [
      inEngine(
        'claim.ts',
        'swapRecord(parts, phase, this.#policy, id, this.#revision, next)',
        'swapRecord(parts, phase, this.#policy, id, (await parts.store.read(id))?.revision ?? null, next)',
      ),
      inEngine(
        'claim.ts',
        "void startSwap(this.#parts, 'settle', this.#policy, id, fence, next, waiter);",
        "void this.#parts.store.read(id).then((found) => startSwap(this.#parts, 'settle', this.#policy, id, found?.revision ?? fence, next, waiter), () => waiter.failed(fence));",
      ),
    ],
  },
  {
    name: 'the answer is given before it is durable',
    breaks: 'E2',
    edits: [
      inEngine(
        'attempt.ts',
        "if ((await claim.settle(record, tried)) === 'lost') return 'lost';",
        'claim.settle(record, tried).catch(() => {});',
      ),
    ],
  },
  {
    name: 'an attempt that lost gives its own answer',
    breaks: 'E5',
    edits: [
      inEngine(
        'attempt.ts',
        "if ((await claim.settle(record, tried)) === 'lost') return 'lost';",
        'await claim.settle(record, tried);',
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
    name: 'an answer on the straight way goes out before its record is durable',
    breaks: 'E2',
    edits: [
      inEngine(
        'straight-run.ts',
        'if (claim.startSettle(prepare(claim.id, settling.record), this)) return;',
        'if (claim.startSettle(prepare(claim.id, settling.record), { succeeded() {}, failed() {} })) {\n        this.#settled(claim, settling, { won: true, revision: 0 });\n        return;\n      }',
      ),
    ],
  },
  {
    name: 'a settlement that lost on the straight way counts',
    breaks: 'E3',
    edits: [
      inEngine('straight-run.ts', 'if (result.won) this.#conclude', 'if (result) this.#conclude'),
    ],
  },
  {
    name: 'a settlement whose reply was lost on the straight way is given up',
    breaks: 'E2',
    edits: [
      inEngine(
        'straight-run.ts',
        'this.#settleAfter(this.#claim, this.#settling!, () => Promise.reject(error));',
        'this.#conclude(settled(this.#parts, this.#claim, this.#settling!));',
      ),
    ],
  },
  {
    name: 'an unrecorded answer is called recorded',
    breaks: 'E2',
    edits: [
      inEngine(
        'attempt.ts',
        'return executed(claim, settlement, false);',
        'return executed(claim, settlement, true);',
      ),
    ],
  },
  {
    name: 'an unrecorded answer is remembered',
    breaks: 'E8',
    edits: [
      inEngine(
        'attempt.ts',
        'return executed(claim, settlement, false);',
        'return executed(claim, settlement, false, null, new NearAnswer(record, outcome));',
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
