import { createOnceward, profiles } from 'onceward';
import { openWalStore } from 'onceward/wal';

export interface Known {
  readonly answers: ReadonlyMap<string, string>;
  readonly effects: ReadonlyMap<string, string>;
}

/**
 * Opens the store that a crash left behind and asks for everything again that was known before it. An answer that was
 * given must be given again, and an effect that happened must not be run: its claim was durable before it began.
 */
export async function inspect(directory: string, known: Known): Promise<string[]> {
  const complaints: string[] = [];
  let store: Awaited<ReturnType<typeof openWalStore>>;
  try {
    store = await openWalStore({ directory, segmentBytes: 1_048_576 });
  } catch (error) {
    return [`the store does not open any more: ${String(error)}`];
  }
  for (const damage of store.damage) complaints.push(`damage: ${JSON.stringify(damage)}`);
  const engine = createOnceward({ store, near: { maxEntries: 10 }, sweep: false });
  for (const key of new Set([...known.effects.keys(), ...known.answers.keys()])) {
    const answer = known.answers.get(key);
    const found = await askAgain(engine, key);
    if (found === 'ran') complaints.push(`${key} was claimed twice`);
    else if (answer !== undefined && found !== answer) {
      complaints.push(`${key} was answered ${answer} and is lost: ${found}`);
    }
  }
  await engine.close();
  await store.close();
  return complaints;
}

async function askAgain(engine: ReturnType<typeof createOnceward>, key: string): Promise<string> {
  const operation = {
    id: { scope: 'crash', key },
    fingerprint: 'same',
    effect: { kind: 'external', onLapse: 'in_doubt' },
    policy: profiles.http,
  } as const;
  const execution = await engine.execute(operation, async () => ({ as: 'released' }));
  switch (execution.kind) {
    case 'executed':
      return 'ran';
    case 'replayed':
      return Buffer.from(execution.outcome.bytes).toString();
    case 'refused':
      return execution.reason;
  }
}
