import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../random.ts';
import { spell } from './operation.ts';
import { RawClient } from './raw-client.ts';
import type { Target } from './target.ts';
import { hearAll, type Scene } from './visit.ts';

/** A fresh request is to be served within a second; a machine shared with others gets three. */
export const PROBE_MS = 3_000;

const WAYS = ['declared', 'chunked', 'expect'] as const;

/**
 * Clients whose requests are under way when the signal to stop comes: they must be answered. Comes back when the
 * target works on all of them, with what waits for their answers.
 */
export async function sendWitnesses(
  target: Target,
  scene: Scene,
  name: () => string,
): Promise<() => Promise<void>> {
  const { told } = scene;
  const sent = WAYS.map((way) => {
    const operation = target.witness(name());
    told.asked(operation);
    const more = way === 'expect' ? ([['Expect', '100-continue']] as const) : [];
    const framing = way === 'chunked' ? 'chunked' : 'declared';
    const { head, body } = spell(operation, scene.host, new Random(1), { framing, more });
    const client = new RawClient(scene.url);
    client.write(head);
    client.write(body);
    return { way, operation, client };
  });
  const operations = sent.map(({ operation }) => operation);
  const deadline = performance.now() + PROBE_MS;
  while (!(await target.hasBegun(operations))) {
    if (performance.now() > deadline) {
      told.complain(`three keyed requests had not begun after ${PROBE_MS} ms`);
      break;
    }
    await sleep(5);
  }
  return async () => {
    for (const { way, operation, client } of sent) {
      await hearAll(client, [operation], scene);
      client.leave('end');
      if (told.answers.get(operation)?.length !== 0) continue;
      told.complain(`a request (${way}) that was under way was cut off by the drain`);
    }
  };
}
