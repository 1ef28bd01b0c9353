import { inEngine, type Mutant } from './mutant.ts';

/** What an attempt may write, and what it may say it has written. */
export const WRITES: readonly Mutant[] = [
  {
    name: 'writes do not carry their fence',
    breaks: 'E5',
    edits: [
      inEngine(
        'run/claim.ts',
        'revision: this.#revision,\n          attempt: this.attempt,',
        'revision: (await this.#parts.store.read(this.id))?.revision ?? this.#revision,\n          attempt: this.attempt,',
      ),
      inEngine(
        'run/claim.ts',
        "void startSwap(this.#parts, 'settle', this.#policy, this.id, revision, prepared, this);",
        "void this.#parts.store.read(this.id).then((found) => void startSwap(this.#parts, 'settle', this.#policy, this.id, found?.revision ?? revision, prepared, this), (error) => this.failed(error));",
      ),
    ],
  },
  {
    name: 'the answer is given before it is durable',
    breaks: 'E2',
    edits: [
      inEngine(
        'run/claim.ts',
        '      this.#settleOn(null);\n    } else {',
        "      this.settleLate(next).catch(() => {});\n      waiter.settled('written');\n    } else {",
      ),
    ],
  },
  {
    name: 'an attempt that lost gives its own answer',
    breaks: 'E5',
    edits: [
      inEngine('run/driver.ts', "if (result === 'lost') return void this.follow(this.read());", ''),
    ],
  },
  {
    name: "a late commit overwrites an operator's verdict",
    breaks: 'E6',
    edits: [
      inEngine(
        'run/claim.ts',
        "(record.state === 'pending' || record.state === 'in_doubt')",
        'true',
      ),
    ],
  },
  {
    name: 'an answer goes out before the first try at its record is durable',
    breaks: 'E2',
    edits: [
      inEngine(
        'run/driver.ts',
        'claim.settle(settling.record, this);',
        "claim.settle(settling.record, { settled() {}, settleFailed() {} });\n    this.settled('written');",
      ),
    ],
  },
  {
    name: 'a settlement that lost its first try counts',
    breaks: 'E3',
    edits: [
      inEngine(
        'run/claim.ts',
        'if (result.won) this.#settleWaiter',
        'if (result) this.#settleWaiter',
      ),
    ],
  },
  {
    name: 'a settlement whose reply was lost is given up',
    breaks: 'E2',
    edits: [
      inEngine(
        'run/claim.ts',
        'this.#settleOn(() => Promise.reject(error));',
        "void error;\n    this.#settleWaiter!.settled('written');",
      ),
    ],
  },
  {
    name: 'an unrecorded answer is called recorded',
    breaks: 'E2',
    edits: [
      inEngine(
        'run/driver.ts',
        'this.#conclude(executed(claim, settling.settlement, false));',
        'this.#conclude(executed(claim, settling.settlement, true));',
      ),
    ],
  },
  {
    name: 'an unrecorded answer is remembered',
    breaks: 'E8',
    edits: [
      inEngine(
        'run/driver.ts',
        'this.#conclude(executed(claim, settling.settlement, false));',
        'this.#conclude(executed(claim, settling.settlement, false), new NearAnswer(settling.record, settling.outcome));',
      ),
    ],
  },
  {
    name: 'an unknown outcome gives the claim back',
    breaks: 'E6',
    edits: [
      inEngine(
        'run/driver.ts',
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
        'run/attempt.ts',
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
        'record/decide.ts',
        'attempt: record.attempt + 1, steps: record.steps',
        'attempt: record.attempt + 1, steps: []',
      ),
    ],
  },
  {
    name: 'a step whose reply was lost is forgotten',
    breaks: 'E14',
    edits: [inEngine('run/claim.ts', 'this.#adopt(found);', 'this.#revision = found.revision;')],
  },
  {
    name: 'a step that could not be saved gives the claim back',
    breaks: 'E14',
    edits: [
      inEngine(
        'run/attempt.ts',
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
        file: 'simulator/src/engine/record-table.ts',
        find: '    this.#revision += 1;\n',
        replace: '    this.#revision = this.#records.size + 1;\n',
      },
    ],
  },
];
