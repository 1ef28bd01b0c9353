import { createOnceward, type Execution, profiles } from 'onceward';
import { openWalStore } from 'onceward/wal';

/**
 * A process that runs operations on the store of a folder until it is killed, and reports each on standard output:
 * `E key fence` when an effect happens, before anything of it is recorded; `A key outcome` when an answer was given;
 * `R key reason` when one was refused. A line that has left the process survives it.
 */
const [directory = '', from = '0'] = process.argv.slice(2);
const IN_FLIGHT = 64;

const store = await openWalStore({ directory, segmentBytes: 1_048_576 });
const engine = createOnceward({ store, near: { maxEntries: 100 }, sweep: { everyMs: 100 } });
const utf8 = new TextEncoder();
let next = Number(from);

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function operationOf(key: string) {
  return {
    id: { scope: 'crash', key },
    fingerprint: 'same',
    effect: { kind: 'external', onLapse: 'in_doubt' },
    policy: { ...profiles.http, keepCommittedMs: 86_400_000, waitMs: 10_000 },
  } as const;
}

async function ask(key: string, pauseMs: number): Promise<void> {
  const execution = await engine.execute(operationOf(key), async ({ fence }) => {
    say(`E ${key} ${fence}`);
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    return {
      as: 'committed',
      outcome: { contentType: 'text', bytes: utf8.encode(`${key}:${fence}`) },
    };
  });
  say(tell(key, execution));
}

function tell(key: string, execution: Execution): string {
  if (execution.kind === 'refused') return `R ${key} ${execution.reason}`;
  if (execution.kind === 'replayed') return `A ${key} ${textOf(execution.outcome.bytes)}`;
  const { settlement, recorded } = execution;
  if (!recorded || !('outcome' in settlement)) return `R ${key} unrecorded`;
  return `A ${key} ${textOf(settlement.outcome.bytes)}`;
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}

async function work(): Promise<never> {
  for (;;) {
    const number = next++;
    const key = `k${number}`;
    // Some operations arrive twice at once, and some take their time between claim and settle.
    const asks = number % 3 === 0 ? 2 : 1;
    const pauseMs = number % 5 === 0 ? number % 7 : 0;
    await Promise.all(Array.from({ length: asks }, () => ask(key, pauseMs)));
  }
}

say('open');
await Promise.all(Array.from({ length: IN_FLIGHT }, work));
