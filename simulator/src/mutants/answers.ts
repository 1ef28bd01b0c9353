import { inEngine, type Mutant } from './mutant.ts';

/** An attempt as the engine would make one, for bugs that run an effect behind the store's back. */
const FORGED_ATTEMPT =
  '{ id: operation.id, number: 1, fence: 0, signal: new AbortController().signal, ' +
  'downstreamKey: parts.downstreamKey(operation.id), step: (_name, work) => work() }';

/** Who gets which answer. */
export const ANSWERS: readonly Mutant[] = [
  {
    name: 'another request under the same key is served',
    breaks: 'E3',
    edits: [
      inEngine(
        'record/decide.ts',
        "if (record.fingerprint !== arrival.fingerprint) return { kind: 'refuse', reason: 'mismatch' };",
        '',
      ),
    ],
  },
  {
    name: 'the near tier answers another request',
    breaks: 'E3',
    edits: [
      inEngine(
        'near/near-tier.ts',
        'const isSame = this.#answers.fingerprintAt(slot) === fingerprint;',
        'const isSame = true;',
      ),
    ],
  },
  {
    name: "a waiter is woken with another request's answer",
    breaks: 'E4',
    edits: [
      inEngine('run/execute-once.ts', 'near.fingerprint !== fingerprint', 'false'),
      inEngine(
        'run/execute-once.ts',
        'return answerOfRun(parts, operation, end);',
        'return replay(parts, operation.id, end, true);',
      ),
    ],
  },
  {
    name: 'the near tier answers what has expired',
    breaks: 'E8',
    edits: [inEngine('near/answer-table.ts', 'if (this.#ends[slot]! <= now) {', 'if (false) {')],
  },
  {
    name: 'the near tier ignores the scope',
    breaks: 'E9',
    edits: [
      inEngine(
        'near/near-tier.ts',
        'this.#answers.find(id, now)',
        "this.#answers.find({ ...id, scope: '' }, now)",
      ),
      inEngine(
        'near/near-tier.ts',
        'this.#answers.put(id,',
        "this.#answers.put({ ...id, scope: '' },",
      ),
    ],
  },
  {
    name: 'keys downstream ignore the scope',
    breaks: 'E9',
    edits: [
      inEngine(
        'engine.ts',
        'onceward-downstream\\0${scope',
        'onceward-downstream\\0${typeof scope',
      ),
    ],
  },
  {
    name: 'a wait that times out runs the effect',
    breaks: 'E4',
    edits: [
      inEngine(
        'run/execute-once.ts',
        'return refuseInProgress(parts, id, arrivedAt);',
        `return { kind: 'executed', settlement: await effect(${FORGED_ATTEMPT}), attempt: 1, fence: 0, recorded: false };`,
      ),
    ],
  },
  {
    name: 'a claim that is lost to nobody runs',
    breaks: 'E12',
    edits: [
      inEngine(
        'run/driver.ts',
        'if (!isHeldBy(current, this.#claiming!.record.owner)) void this.follow(current);\n    else this.#hold(current.revision);',
        'if (current !== null && !isHeldBy(current, this.#claiming!.record.owner)) void this.follow(current);\n    else this.#hold(current?.revision ?? 1);',
      ),
    ],
  },
  {
    name: 'a store that rejects with no error is taken for an answer',
    breaks: 'E12',
    edits: [
      inEngine(
        'store-access/store-calls.ts',
        '(error) => this.failed(error),',
        '(error) => (error === undefined ? this.succeeded({ won: true, revision: 1 } as never) : this.failed(error)),',
      ),
    ],
  },
  {
    name: 'a store that answers nonsense is asked without end',
    breaks: 'E12',
    edits: [
      inEngine('run/rounds.ts', 'if (this.#made > MOST) {', 'if (this.#made < 0) {'),
      inEngine(
        'run/rounds.ts',
        'if (this.#made <= WITHOUT_PAUSE) return;',
        'if (this.#made > 0) return;',
      ),
    ],
  },
  {
    name: 'bytes in a form that nobody reads count as an unreadable record',
    breaks: 'E10',
    edits: [
      inEngine(
        'store-access/store-calls.ts',
        "if (!(stored?.bytes instanceof Uint8Array)) throw unsound('a read', stored);",
        'if (!(stored.bytes instanceof Uint8Array)) return { revision: stored.revision, record: null, orphaned: false };',
      ),
    ],
  },
  {
    name: 'who only looks up an answer counts as one who runs',
    breaks: 'E4',
    edits: [
      inEngine(
        'run/execute-once.ts',
        'await (leftMs > 0\n',
        'await (leftMs !== Number.POSITIVE_INFINITY\n',
      ),
    ],
  },
  {
    name: 'once() calls every value recorded',
    breaks: 'E15',
    edits: [inEngine('once.ts', 'recorded: replayed || execution.recorded', 'recorded: true')],
  },
  {
    name: 'once() gives a value without a mark',
    breaks: 'E15',
    edits: [
      inEngine('engine.ts', 'if (result !== null) options.onResult?.(result);', 'void result;'),
    ],
  },
  {
    name: 'a refused caller has its effect run later',
    breaks: 'E12',
    edits: [
      inEngine(
        'run/unprotected.ts',
        "if (isTooOld || policy.onStoreDown === 'refuse') {\n",
        `if (isTooOld || policy.onStoreDown === 'refuse') {\n    parts.world.startTimer(5, () => void effect(${FORGED_ATTEMPT}).catch(() => {}));\n`,
      ),
    ],
  },
];
