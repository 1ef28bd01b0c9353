/** A bug that is put into a copy of the program, to see whether the simulator finds it. */
export interface Mutant {
  readonly name: string;
  /** The requirement that it breaks. */
  readonly breaks: string;
  readonly edits: readonly Edit[];
}

/** One change of one file. What is to be found must be there exactly once. */
export interface Edit {
  /** From the root of the workspace. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

const ENGINE = 'packages/onceward/src/engine';

function inEngine(file: string, find: string, replace: string): Edit {
  return { file: `${ENGINE}/${file}`, find, replace };
}

/** An attempt as the engine would make one, for bugs that run an effect behind the store's back. */
const FORGED_ATTEMPT =
  '{ id: operation.id, number: 1, fence: 0, signal: new AbortController().signal, ' +
  'downstreamKey: parts.downstreamKey(operation.id), step: (_name, work) => work() }';

const CLAIMS: readonly Mutant[] = [
  {
    name: 'a lease that holds is ignored',
    breaks: 'E5',
    edits: [inEngine('decide.ts', 'return orphaned || record.leaseUntil <= wall;', 'return true;')],
  },
  {
    name: 'the near tier grants a claim',
    breaks: 'E8',
    edits: [
      inEngine(
        'execute-once.ts',
        'parts.store.swap(id, decision.expected, next),',
        'decision.expected === null ? Promise.resolve({ won: true, revision: 1 }) : parts.store.swap(id, decision.expected, next),',
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
        'if (view.getUint32(CHECKSUM_AT, true) !== checksum(id, bytes)) return null;',
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
    edits: [inEngine('attempt.ts', '  claim.startHeartbeat();\n', '')],
  },
  {
    name: 'an effect begins under a claim that could have lapsed',
    breaks: 'E5',
    edits: [inEngine('attempt.ts', ' || !claim.isFresh) {', ') {')],
  },
  {
    name: 'an effect begins though its caller has left',
    breaks: 'E4',
    edits: [inEngine('attempt.ts', 'if (operation.signal?.aborted || !claim', 'if (!claim')],
  },
  {
    name: "a lost reply is taken for a claim, whoever's record is there",
    breaks: 'E1',
    edits: [
      inEngine(
        'execute-once.ts',
        "if (found?.record?.owner !== record.owner || found.record.state !== 'pending') return found;",
        'if (found === null) return found;',
      ),
    ],
  },
  {
    name: "taking a claim back removes another's",
    breaks: 'E5',
    edits: [
      inEngine(
        'execute-once.ts',
        ' || current.record.owner !== record.owner) return true;',
        ') return true;',
      ),
    ],
  },
  {
    name: 'an arrival that lost its claim runs again',
    breaks: 'E1',
    edits: [
      inEngine(
        'execute-once.ts',
        "if (visit.ran) return bare(refuse(parts, operation.id, 'fence_lost', RETRY_SOON));",
        '',
      ),
    ],
  },
];

const WRITES: readonly Mutant[] = [
  {
    name: 'writes do not carry their fence',
    breaks: 'E5',
    edits: [
      inEngine(
        'claim.ts',
        'store.swap(this.id, this.#revision, next),',
        'store.read(this.id).then((now) => store.swap(this.id, now?.revision ?? null, next)),',
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

const ANSWERS: readonly Mutant[] = [
  {
    name: 'another request under the same key is served',
    breaks: 'E3',
    edits: [
      inEngine(
        'decide.ts',
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
        'execute-once.ts',
        'return answer.fingerprint === operation.fingerprint\n',
        'return true\n',
      ),
    ],
  },
  {
    name: "a waiter is woken with another request's answer",
    breaks: 'E4',
    edits: [
      inEngine(
        'execute-once.ts',
        'running !== undefined && running.fingerprint === operation.fingerprint',
        'running !== undefined',
      ),
      inEngine(
        'execute-once.ts',
        'if (answer !== null) return answerFromNear(parts, operation, answer);',
        'if (answer !== null) return replay(parts, operation.id, answer, true);',
      ),
    ],
  },
  {
    name: 'the near tier answers what has expired',
    breaks: 'E8',
    edits: [inEngine('near-tier.ts', 'if (found.keepUntil <= now) {', 'if (false) {')],
  },
  {
    name: 'the near tier ignores the scope',
    breaks: 'E9',
    edits: [inEngine('near-tier.ts', '{id.scope}\\0$', '')],
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
        'execute-once.ts',
        "if (answer === 'timed_out') return refuseInProgress(parts, operation, arrivedAt);",
        `if (answer === 'timed_out') return { kind: 'executed', settlement: await effect(${FORGED_ATTEMPT}), attempt: 1, fence: 0, recorded: false };`,
      ),
    ],
  },
  {
    name: 'a refused caller has its effect run later',
    breaks: 'E12',
    edits: [
      inEngine(
        'execute-once.ts',
        "if (operation.policy.onStoreDown === 'refuse') {\n",
        `if (operation.policy.onStoreDown === 'refuse') {\n    parts.world.startTimer(5, () => void effect(${FORGED_ATTEMPT}).catch(() => {}));\n`,
      ),
    ],
  },
];

const RETENTION: readonly Mutant[] = [
  {
    name: 'time forgets a doubt',
    breaks: 'E6',
    edits: [
      inEngine(
        'decide.ts',
        "    case 'in_doubt':\n      return false;\n",
        "    case 'in_doubt':\n      return record.since + 2_000 <= now;\n",
      ),
    ],
  },
  {
    name: 'the sweeper forgets doubts',
    breaks: 'E6',
    edits: [
      inEngine(
        'sweep.ts',
        "{ states: ['pending'], dueBefore: parts.world.now(), limit: batch }",
        "{ states: ['pending', 'in_doubt'], limit: batch }",
      ),
      inEngine(
        'sweep.ts',
        "if (record?.state !== 'pending') return null;",
        "if (record?.state === 'in_doubt') return (await swap(parts, found, null)) ? 'forgotten' : null;\n  if (record?.state !== 'pending') return null;",
      ),
    ],
  },
  {
    name: 'the sweeper forgets claims',
    breaks: 'E6',
    edits: [inEngine('sweep.ts', 'if (isForgettable(record, parts.time())) {', 'if (true) {')],
  },
  {
    name: 'retention starts with the claim',
    breaks: 'E2',
    edits: [
      inEngine('transitions.ts', 'keepUntil: now + keepMs,', 'keepUntil: createdAt + keepMs,'),
    ],
  },
  {
    name: 'retention ends by the wall clock',
    breaks: 'E2',
    edits: [
      inEngine(
        'decide.ts',
        'const now = Math.min(time.wall, time.steady);',
        'const now = time.wall;',
      ),
    ],
  },
  {
    name: 'the sweeper goes by the wall clock',
    breaks: 'E11',
    edits: [
      inEngine(
        'sweep.ts',
        '  const now = retentionNow(parts);\n',
        '  const now = parts.world.now();\n',
      ),
    ],
  },
  {
    name: 'retention starts by the wall clock',
    breaks: 'E2',
    edits: [inEngine('parts.ts', 'return Math.max(time.wall, time.steady);', 'return time.wall;')],
  },
  {
    name: 'a late answer is kept from the first try',
    breaks: 'E2',
    edits: [
      inEngine(
        'attempt.ts',
        'const late = { ...record, settledAt, keepUntil: settledAt + keepMs };',
        'const late = record;',
      ),
    ],
  },
  {
    name: 'extending an answer cuts it short',
    breaks: 'E2',
    edits: [
      inEngine(
        'resolve.ts',
        'Math.max(record.keepUntil, settlingNow(parts) + keepMs)',
        'settlingNow(parts) + keepMs',
      ),
    ],
  },
];

const OUTSIDERS: readonly Mutant[] = [
  {
    name: 'a probe that knows nothing clears the doubt',
    breaks: 'E6',
    edits: [
      inEngine('probe.ts', "if (found.found === 'unknown') return unchanged;", ''),
      inEngine(
        'probe.ts',
        "found.found === 'nothing' ? null",
        "found.found === 'nothing' || found.found === 'unknown' ? null",
      ),
    ],
  },
  {
    name: 'verdicts leave no audit line',
    breaks: 'E6',
    edits: [
      inEngine(
        'resolve.ts',
        'await parts.audit({ at: parts.world.now(), scope, key, by, reason, ...line });',
        'void [scope, key, by, reason, line];',
      ),
    ],
  },
  {
    name: 'a reservation may be finished under any fence',
    breaks: 'E5',
    edits: [
      inEngine(
        'reservation.ts',
        'if (fenceOf(record, current.revision) !== fence) return { done: false };',
        '',
      ),
    ],
  },
  {
    name: "a commit is acknowledged over another's answer",
    breaks: 'E5',
    edits: [
      inEngine(
        'reservation.ts',
        'return { done: record.state === change.as && record.resolution === null };',
        'return { done: true };',
      ),
    ],
  },
  {
    name: 'the record is written outside the transaction',
    breaks: 'E7',
    edits: [inEngine('transaction.ts', 'store.within(tx)', 'store')],
  },
  {
    name: 'an unknown commit is called committed',
    breaks: 'E7',
    edits: [
      inEngine(
        'transaction.ts',
        'if (record?.owner === done.record.owner) return conclude',
        'void record; return conclude',
      ),
    ],
  },
];

export const MUTANTS: readonly Mutant[] = [
  ...CLAIMS,
  ...WRITES,
  ...ANSWERS,
  ...RETENTION,
  ...OUTSIDERS,
];
