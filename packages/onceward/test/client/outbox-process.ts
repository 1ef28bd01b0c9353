import { groups, Outbox, type OutboxRequest } from '../../src/client/index.ts';
import { openLogStorage } from '../../src/client/storages/node-log.ts';

/**
 * One life of an application: queues what it is given, sends what waits, and ends when nothing is left. Its
 * keys follow from the names, so a process killed before its write was confirmed can queue it again.
 */
const [directory = '', url = '', ...batches] = process.argv.slice(2);

const order = (item: string): OutboxRequest => ({ url: `${url}/orders`, json: { item } });
const patience = new AbortController();
const storage = await openLogStorage({ directory, waitForLock: patience.signal });
const outbox = new Outbox({ storage, groups, retry: { baseMs: 5, capMs: 20, maxAttempts: 50 } });
outbox.subscribe((event) => {
  if (event.type === 'storage_failed') process.stderr.write(`${event.message}\n`);
});

const queued = batches.flatMap((batch) => [
  ...['a', 'b', 'c'].map((name) =>
    outbox.enqueue(order(`${batch}-${name}`), { key: `${batch}-${name}`, lane: batch }),
  ),
  outbox.enqueueGroup(
    [{ ...order(`${batch}-step`), undo: order(`${batch}-undo`) }, order(`refused-${batch}`)],
    { key: `${batch}-group` },
  ),
]);
const ids = (await Promise.all(queued)).map(({ id }) => id);
process.stdout.write('queued\n');
const ends = await Promise.all(ids.map((id) => outbox.whenSettled(id)));
await outbox.close();
process.stdout.write(`${JSON.stringify(ends.map((end) => end?.state))}\n`);
