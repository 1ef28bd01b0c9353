import { setTimeout as sleep } from 'node:timers/promises';
import { spell, wholeOf } from './operation.ts';
import { MANNERS, RawClient } from './raw-client.ts';
import { type Draw, hearAll, type Scene, type Visit } from './visit.ts';

/** Uploads in drops. */
export function drips({ random, host, key }: Draw): Visit {
  const operation = key();
  const framing = random.pick(['declared', 'chunked'] as const);
  const bytes = wholeOf(spell(operation, host, random, { framing }));
  const drops = 3 + random.below(20);
  const cuts = Array.from({ length: drops }, () => random.below(bytes.length)).sort(
    (a, b) => a - b,
  );
  const pauseMs = 1 + random.below(8);
  return {
    about: `${operation.target} ${framing} in ${drops} drops, one in ${pauseMs} ms`,
    async go(scene) {
      scene.told.asked(operation);
      const client = new RawClient(scene.url);
      let from = 0;
      for (const cut of [...cuts, bytes.length]) {
        if (cut > from) client.write(bytes.subarray(from, cut));
        from = cut;
        await sleep(pauseMs);
      }
      await hearAll(client, [operation], scene);
      client.leave('end');
    },
  };
}

/** Uploads that begin and do not go on. All other traffic must. */
export function stalls({ random, host, key, maxBytes }: Draw): Visit {
  const fillsBuffers = random.chance(0.25);
  const count = fillsBuffers ? 33 + random.below(12) : 1 + random.below(6);
  const framing = random.pick(['declared', 'chunked'] as const);
  const waits = random.chance(0.5);
  const manner = random.pick(MANNERS);
  const uploads = Array.from({ length: count }, () => {
    const operation = { ...key(), body: 'x'.repeat(maxBytes), ends: [] };
    const { head, body } = spell(operation, host, random, { framing });
    return { operation, bytes: Buffer.concat([head, body.subarray(0, 1 + random.below(20))]) };
  });
  return {
    about: `${count} ${framing} uploads that stall in their first bytes, left (${manner}) ${waits ? 'at the end' : 'soon'}`,
    async go(scene) {
      const clients = uploads.map(({ bytes }) => {
        const client = new RawClient(scene.url);
        client.write(bytes);
        return client;
      });
      await (waits ? scene.over : sleep(50));
      for (const client of clients) client.leave(manner);
    },
  };
}

/** Answers that are asked for and not read, or late. */
export function unread({ random, host, key, plain }: Draw): Visit {
  const count = 1 + random.below(random.chance(0.3) ? 30 : 4);
  const operations = Array.from({ length: count }, () => (random.chance(0.7) ? key() : plain()));
  const bytes = operations.map((operation) => wholeOf(spell(operation, host, random)));
  const manner = random.pick(MANNERS);
  const fate = random.pick(['never', 'late', 'half-closed'] as const);
  const pauseMs = 20 + random.below(100);
  return {
    about: `${count} answers on one connection, read ${fate}, left (${manner})`,
    async go(scene) {
      for (const operation of operations) scene.told.asked(operation);
      const client = new RawClient(scene.url);
      client.stopReading();
      await client.connected;
      client.write(Buffer.concat(bytes));
      if (fate === 'half-closed') client.halfClose();
      await (fate === 'late' ? sleep(pauseMs) : scene.over);
      client.readOn();
      if (fate === 'late') await hearAll(client, operations, scene);
      client.leave(manner);
    },
  };
}

/** Says that it has finished, and reads on. */
export function halfCloses({ random, host, key }: Draw): Visit {
  const operation = key();
  const bytes = wholeOf(spell(operation, host, random));
  const pauseMs = random.below(20);
  return {
    about: `${operation.target}, half-closed after ${pauseMs} ms`,
    async go(scene) {
      scene.told.asked(operation);
      const client = new RawClient(scene.url);
      client.write(bytes);
      await sleep(pauseMs);
      client.halfClose();
      // Whether it is still answered is the server's own choice; that it comes to an end is not.
      await client.until(() => client.answers.some(({ whole }) => whole), 3_000);
      for (const answer of client.answers) scene.told.heard(operation, answer);
      client.leave('destroy');
    },
  };
}

/** `Expect: 100-continue`: waited for, not waited for, or followed by nothing. */
export function expectsLeave({ random, host, key }: Draw): Visit {
  const operation = key();
  const framing = random.pick(['declared', 'chunked'] as const);
  const more = [['Expect', '100-continue']] as const;
  const { head, body } = spell(operation, host, random, { framing, more });
  const fate = random.pick(['waits', 'does not wait', 'sends nothing', 'sends half'] as const);
  const manner = random.pick(MANNERS);
  const run = async (client: RawClient, scene: Scene) => {
    client.write(head);
    if (fate !== 'does not wait') await client.until(() => client.received.length > 0, 3_000);
    if (fate === 'sends nothing') return;
    client.write(fate === 'sends half' ? body.subarray(0, body.length / 2) : body);
    if (fate === 'sends half') await sleep(10);
    else await hearAll(client, [operation], scene);
  };
  return {
    about: `${operation.target} ${framing} with Expect, which ${fate}, left (${manner})`,
    async go(scene) {
      scene.told.asked(operation);
      const client = new RawClient(scene.url);
      await run(client, scene);
      client.leave(manner);
    },
  };
}
