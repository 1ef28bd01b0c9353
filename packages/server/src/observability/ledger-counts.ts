import type { Ledger, LedgerCounters } from '@onceward/ledger';
import { Counter, type Registry } from 'prom-client';
import type { Instruments } from './instruments.ts';

type Read = (counters: LedgerCounters) => number;

const COUNTS: readonly (readonly [name: string, help: string, read: Read])[] = [
  ['transactions_total', 'Transactions that were committed.', (counts) => counts.transactions],
  ['rejected_total', 'Transactions that funds or policy did not allow.', (c) => c.rejected],
  ['rolled_back_total', 'Transactions undone with the batch of a duplicate.', (c) => c.rolledBack],
  ['writes_total', 'Sequenced writes that were committed.', (counts) => counts.writes],
  ['refused_total', 'Requests that were not valid, or one too many.', (counts) => counts.refused],
  ['batches_total', 'Batches that were committed.', (counts) => counts.batches],
];

/** The ledger counts for itself; what it has counted is read when it is scraped. */
export function countLedger(make: Instruments, registry: Registry, ledger: Ledger): void {
  const { counters } = ledger;
  for (const [name, help, read] of COUNTS) {
    countOnScrape(registry, name, help, [], (counter) => counter.inc(read(counters)));
  }
  const layers = 'Transactions refused as duplicates, by the layer that found them.';
  countOnScrape(registry, 'duplicates_total', layers, ['layer'], (counter) => {
    for (const [layer, count] of Object.entries(counters.duplicates)) counter.inc({ layer }, count);
  });
  const tiers = 'Sequenced writes that were repeats, by the tier that knew them.';
  countOnScrape(registry, 'repeats_total', tiers, ['tier'], (counter) => {
    for (const [tier, count] of Object.entries(counters.repeats)) counter.inc({ tier }, count);
  });
  make.gauge('ledger_up', 'Whether the ledger can write.', [], (self) =>
    self.set(ledger.failure === undefined ? 1 : 0),
  );
  make.gauge('ledger_in_flight', 'Requests that the ledger is working on.', [], (self) =>
    self.set(ledger.inFlight),
  );
  make.gauge('ledger_height', 'Height of the last block.', [], (self) =>
    self.set(ledger.getTip().header.height),
  );
}

function countOnScrape(
  registry: Registry,
  name: string,
  help: string,
  labelNames: string[],
  count: (counter: Counter) => void,
): void {
  new Counter({
    name: `onceward_ledger_${name}`,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      count(this);
    },
  });
}
