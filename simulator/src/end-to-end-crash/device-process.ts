import { setTimeout as sleep } from 'node:timers/promises';
import { groups, Outbox, type OutboxRequest } from 'onceward/client';
import { openLogStorage } from 'onceward/client/node';
import type { Ending } from './journal.ts';

/**
 * One life of an application: queues the batches of which no earlier life has heard that they are stored, edits and
 * cancels some of them, tries again what has failed. The last process, which gets `end`, goes on until nothing waits,
 * and says how all batches stand.
 */
const [directory = '', url = '', task = '', unheard = '', ...batches] = process.argv.slice(2);

const storage = await openLogStorage({ directory, waitForLock: new AbortController().signal });
const outbox = new Outbox({
  storage,
  groups,
  replayWindowMs: 3_600_000,
  retry: { baseMs: 20, capMs: 200, maxAttempts: 6, timeoutMs: 3_000 },
  breaker: { failures: 1_000, windowMs: 1_000, openMs: 50 },
  auth: { headers: () => ({ authorization: 'Bearer device' }) },
});

const request = (name: string, more: object = {}): OutboxRequest => ({
  url: `${url}/charges`,
  json: { name, undo: false, refuse: false, ...more },
});

const wanted = batches.flatMap((batch) => [
  { key: `${batch}-a`, names: [`${batch}-a`] },
  { key: `${batch}-b`, names: [`${batch}-b`] },
  { key: `${batch}-c`, names: [`${batch}-c`] },
  { key: `${batch}-group`, names: [`${batch}-one`, `${batch}-two`] },
  { key: `${batch}-back`, names: [`${batch}-first`, `${batch}-no`] },
]);

async function queue(batch: string): Promise<{ id: string }[]> {
  const step = (name: string, refuse: boolean) => ({
    ...request(name, { refuse }),
    undo: request(name, { undo: true }),
  });
  return Promise.all([
    ...['a', 'b', 'c'].map((name) =>
      outbox.enqueue(request(`${batch}-${name}`), {
        key: `${batch}-${name}`,
        lane: batch,
        label: `${batch}-${name}`,
      }),
    ),
    outbox.enqueueGroup([step(`${batch}-one`, false), step(`${batch}-two`, false)], {
      key: `${batch}-group`,
      label: `${batch}-group`,
    }),
    outbox.enqueueGroup([step(`${batch}-first`, false), step(`${batch}-no`, true)], {
      key: `${batch}-back`,
      label: `${batch}-back`,
    }),
  ]);
}

async function change(batch: string, ids: readonly { id: string }[]): Promise<void> {
  await sleep(Math.random() * 300);
  const edited = request(`${batch}-b`, { edited: true });
  if (Math.random() < 0.5) await outbox.edit(ids[1]?.id ?? '', edited);
  if (Math.random() < 0.5) await outbox.cancel(ids[2]?.id ?? '');
}

const fresh = unheard.split(',').filter((batch) => batch !== '');
const queued = await Promise.all(fresh.map(queue));
process.stdout.write('queued\n');
if (task === 'live') {
  void Promise.all(fresh.map((batch, i) => change(batch, queued[i] ?? [])));
  for (;;) {
    await sleep(300);
    for await (const { id, outcome } of outbox.failed.list()) {
      if (outcome !== 'too_late') await outbox.failed.retry(id);
    }
  }
}

/** Until nothing waits, then what is unknown once more, as often as it is asked to. */
async function settle(): Promise<void> {
  while (((await storage.count('waiting/')) ?? 0) > 0) await sleep(50);
}

await settle();
process.stdout.write('settled\n');
for await (const _ of process.stdin) {
  for await (const { id, outcome } of outbox.failed.list()) {
    if (outcome === 'unknown') await outbox.failed.retry(id);
  }
  await settle();
  process.stdout.write('settled\n');
}

const stands = new Map<string, { state: Ending['state']; outcome: string | null }>();
for (const prefix of ['failed/', 'done/'] as const) {
  const found = await storage.range({ prefix, limit: 100_000 });
  for (const { key, entry } of found) {
    const {
      label,
      state,
      outcome = null,
    } = entry as unknown as {
      label: string;
      state: Ending['state'];
      outcome?: string;
    };
    // An edit that came too late was never sent; it stands beside its original.
    if (!key.endsWith('e') || outcome !== 'too_late') stands.set(label, { state, outcome });
  }
}
const endings: Ending[] = wanted.map(({ key, names }) => {
  const stood = stands.get(key) ?? { state: 'gone', outcome: null };
  return { names, ...stood, wasCancelled: key.endsWith('-c') };
});
process.stdout.write(`endings ${JSON.stringify(endings)}\n`);
await outbox.close();
