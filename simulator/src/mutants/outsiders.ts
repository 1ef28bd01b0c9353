import { inEngine, type Mutant } from './mutant.ts';

/** Probes, operators, reservations and transactions. */
export const OUTSIDERS: readonly Mutant[] = [
  {
    name: 'a probe that knows nothing clears the doubt',
    breaks: 'E6',
    edits: [
      inEngine('run/probe.ts', "if (found.found === 'unknown') return unchanged;", ''),
      inEngine(
        'run/probe.ts',
        "found.found === 'nothing'",
        "found.found === 'nothing' || found.found === 'unknown'",
      ),
    ],
  },
  {
    name: 'verdicts leave no audit line',
    breaks: 'E6',
    edits: [
      inEngine(
        'operate/resolve.ts',
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
        'run/reservation.ts',
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
        'run/reservation.ts',
        'return { done: record.state === change.as && record.resolution === null };',
        'return { done: true };',
      ),
    ],
  },
  {
    name: 'the record is written outside the transaction',
    breaks: 'E7',
    edits: [inEngine('run/transaction.ts', 'store.within(tx)', 'store')],
  },
  {
    name: 'an unknown commit is called committed',
    breaks: 'E7',
    edits: [
      inEngine(
        'run/transaction.ts',
        'if (found?.record?.owner === done.record.owner) return conclude',
        'void found; return conclude',
      ),
    ],
  },
];
