import { inEngine, inLibrary, type Mutant } from './mutant.ts';

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
    name: 'a transaction on a silent connection does not hear that its caller has left',
    breaks: 'E12',
    edits: [
      inEngine(
        'run/transaction.ts',
        "signal?.addEventListener('abort', leave, { once: true });",
        'void leave;',
      ),
    ],
  },
  {
    name: 'an effect begins in a transaction that was given up',
    breaks: 'E12',
    edits: [inEngine('run/transaction.ts', 'stop.signal.throwIfAborted();', '')],
  },
  {
    name: 'a transaction waits for its settle for as long as it may last',
    breaks: 'E12',
    edits: [
      inEngine(
        'run/transaction.ts',
        "await callStore(parts, 'settle', policy, () =>\n    soundly(store.swap(id, fence, prepare(id, settled))),\n  );",
        'await soundly(store.swap(id, fence, prepare(id, settled)));',
      ),
    ],
  },
  {
    name: 'an error of a database driver reaches the caller as it is',
    breaks: 'E12',
    edits: [
      inEngine('run/transaction.ts', 'if (!isStoreFault(error)) throw error;', 'throw error;'),
    ],
  },
  {
    name: 'transactions in a row never leave the file to others',
    breaks: 'E12',
    edits: [
      inLibrary(
        'stores/sqlite/turns.ts',
        'if (waiting > 0 && isDue) await pace.sleep(PAUSE_MS);',
        '',
      ),
    ],
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
