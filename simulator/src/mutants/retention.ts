import { inEngine, type Mutant } from './mutant.ts';

/** What is forgotten, and when. */
export const RETENTION: readonly Mutant[] = [
  {
    name: 'time forgets a doubt',
    breaks: 'E6',
    edits: [
      inEngine(
        'record/decide.ts',
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
        'operate/sweep.ts',
        "{ states: ['pending'], dueBefore: now, limit: batch }",
        "{ states: ['pending', 'in_doubt'], limit: batch }",
      ),
      inEngine(
        'operate/sweep.ts',
        "if (record?.state !== 'pending') return null;",
        "if (record?.state === 'in_doubt') return (await forget(parts, found)) ? 'forgotten' : null;\n  if (record?.state !== 'pending') return null;",
      ),
    ],
  },
  {
    name: 'the sweeper forgets claims',
    breaks: 'E6',
    edits: [
      inEngine(
        'operate/sweep.ts',
        'if (isForgettable(record, parts.clock.time())) {',
        'if (true) {',
      ),
    ],
  },
  {
    name: 'the sweeper leaves what has expired',
    breaks: 'E11',
    edits: [
      inEngine(
        'operate/sweep.ts',
        "'rejected'], dueBefore: now, limit: batch }",
        "'rejected'], dueBefore: 0, limit: batch }",
      ),
    ],
  },
  {
    name: 'the sweeper takes what a share gives without asking for its time',
    breaks: 'E2',
    edits: [
      inEngine(
        'operate/sweep.ts',
        'if (found.dueAt === null || found.dueAt > parts.clock.retentionNow()) return false;',
        'if (found.dueAt === null) return false;',
      ),
    ],
  },
  {
    name: 'the sweeper looks at claims alone where a store gives shares',
    breaks: 'E11',
    edits: [
      inEngine('operate/sweep.ts', 'if (await forgetIfDue(parts, found)) tally.settled += 1;', ''),
    ],
  },
  {
    name: 'a scan that is never answered ends the sweeping',
    breaks: 'E11',
    edits: [
      inEngine(
        'operate/sweep.ts',
        'await callStore(parts, phase, BOUND, () => records.next())',
        'await records.next()',
      ),
    ],
  },
  {
    name: 'retention starts with the claim',
    breaks: 'E2',
    edits: [
      inEngine(
        'record/transitions.ts',
        'keepUntil: now + keepMs,',
        'keepUntil: createdAt + keepMs,',
      ),
    ],
  },
  {
    name: 'retention ends by the wall clock',
    breaks: 'E2',
    edits: [
      inEngine(
        'store-access/engine-clock.ts',
        'return { leases, retention: Math.min(leases, started), latest };',
        'return { leases, retention: leases, latest };',
      ),
    ],
  },
  {
    name: 'the sweeper goes by the wall clock',
    breaks: 'E11',
    edits: [
      inEngine(
        'operate/sweep.ts',
        '  const now = parts.clock.retentionNow();\n',
        '  const now = parts.world.now();\n',
      ),
    ],
  },
  {
    name: 'retention starts by the wall clock',
    breaks: 'E2',
    edits: [
      inEngine(
        'store-access/engine-clock.ts',
        'return Math.max(this.now(), carriedOn(this.#started, this.#world.elapsed()));',
        'return this.now();',
      ),
    ],
  },
  {
    name: 'the clock of the store is never read',
    breaks: 'E2',
    edits: [inEngine('store-access/engine-clock.ts', 'store.clock !== undefined', 'false')],
  },
  {
    name: 'arrivals do not wait for the clock of the store',
    breaks: 'E2',
    edits: [inEngine('run/execute-once.ts', 'if (parts.clock.isUnknown) {', 'if (false) {')],
  },
  {
    name: 'a late answer is kept from the first try',
    breaks: 'E2',
    edits: [
      inEngine(
        'run/settlement.ts',
        'const late = settledLater(record, parts.clock.settlingNow());',
        'const late = record;',
      ),
    ],
  },
  {
    name: 'extending an answer cuts it short',
    breaks: 'E2',
    edits: [inEngine('record/transitions.ts', 'Math.max(record.keepUntil, until)', 'until')],
  },
];
