/** A process of its own whose clock is wrong from the start. Started by `clocks.integration.test.ts`. */
import { openStoreAt, type StoreAddress } from './store-address.ts';

export interface ClockOrder {
  readonly verb: 'run' | 'sweep' | 'events' | 'finish';
  readonly key: string;
  readonly keepMs: number;
  /** The effect ends only on command. */
  readonly held: boolean;
}

const address = JSON.parse(process.argv[2] ?? '') as StoreAddress;
const offsetMs = Number(process.argv[3]);
const rightNow = Date.now;
Date.now = () => rightNow() + offsetMs;
// Only now: whatever reads the clock is to read this one.
const { createOnceward, profiles } = await import('../../src/index.ts');

const store = await openStoreAt(address);
const events: object[] = [];
const engine = createOnceward({
  store,
  sweep: false,
  observe: (event) => void (event.type === 'clock_skew' && events.push(event)),
});
let finish = () => {};

process.on('message', (order: ClockOrder) => {
  void carryOut(order).then((answer) => process.send?.(answer));
});
process.on('disconnect', () => process.exit());
process.send?.('ready');

async function carryOut(order: ClockOrder): Promise<unknown> {
  switch (order.verb) {
    case 'run':
      return run(order);
    case 'sweep':
      return engine.sweep();
    case 'events':
      return events;
    case 'finish':
      finish();
      return 'done';
  }
}

async function run({ key, keepMs, held }: ClockOrder): Promise<unknown> {
  const running = engine.execute(
    {
      id: { scope: 'clocks', key },
      fingerprint: 'f',
      effect: { kind: 'external', onLapse: 'in_doubt' },
      policy: { ...profiles.http, waitMs: 0, keepCommittedMs: keepMs },
    },
    async () => {
      if (held) await new Promise<void>((resolve) => (finish = resolve));
      return { as: 'committed', outcome: { contentType: 'text', bytes: new Uint8Array(1) } };
    },
  );
  if (held) return 'running';
  const execution = await running;
  return execution.kind === 'refused' ? execution.reason : execution.kind;
}
