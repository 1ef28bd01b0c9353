import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';
import { type Operation, type Spelled, spell, wholeOf } from './operation.ts';
import { MANNERS, RawClient } from './raw-client.ts';
import type { Told } from './told.ts';

/** Where a visit takes place. */
export interface Scene {
  readonly url: string;
  readonly host: string;
  readonly told: Told;
  /** The target is being stopped: a client that is cut off then is no failure. */
  readonly stopping: () => boolean;
  /** Those who never leave by themselves leave then. */
  readonly over: Promise<void>;
}

/** Something a client does. All of it is drawn before it begins, so that a seed reproduces it. */
export interface Visit {
  readonly about: string;
  go(scene: Scene): Promise<void>;
}

/** What visits are drawn from. `key` and `plain` make up a new operation each time. */
export interface Draw {
  readonly random: Random;
  readonly host: string;
  key(): Operation;
  plain(): Operation;
  /** Longest body that the target reads. */
  readonly maxBytes: number;
}

export const PATIENCE_MS = 10_000;

/** Notes what has come so far, and says how many whole answers that was. */
function noteAnswers(client: RawClient, operations: readonly Operation[], scene: Scene): number {
  const answers = client.answers.filter(({ whole }) => whole);
  for (const [index, answer] of answers.entries()) {
    const operation = operations[index];
    if (operation !== undefined) scene.told.heard(operation, answer);
  }
  return answers.length;
}

/** Waits for all answers of a connection, and minds if one is missing. */
export async function hearAll(
  client: RawClient,
  operations: readonly Operation[],
  scene: Scene,
): Promise<void> {
  await client.hear(operations.length, PATIENCE_MS);
  const heard = noteAnswers(client, operations, scene);
  if (heard >= operations.length || scene.stopping() || client.closed) return;
  const missing = operations[heard]?.name;
  scene.told.complain(`${missing} was not answered within ${PATIENCE_MS} ms, nor closed`);
}

export function stays({ random, host, key, plain }: Draw): Visit {
  const operation = random.chance(0.7) ? key() : plain();
  const framing = operation.method === 'POST' && random.chance(0.4) ? 'chunked' : 'declared';
  const bytes = wholeOf(spell(operation, host, random, { framing }));
  return {
    about: `${operation.name} ${operation.target} ${framing}, by a client that stays`,
    async go(scene) {
      scene.told.asked(operation);
      const client = new RawClient(scene.url);
      client.write(bytes);
      await hearAll(client, [operation], scene);
      client.leave('end');
      const status = scene.told.answers.get(operation)?.[0]?.status;
      const { ends } = operation;
      if (scene.stopping() || ends.length === 0 || ends.includes(status ?? 0)) return;
      scene.told.complain(`${operation.name} (${operation.target}) was answered with ${status}`);
    },
  };
}

const MOMENTS = ['before', 'head', 'head end', 'body', 'sent', 'waiting', 'answer'] as const;

/** A client that goes at some moment between its first byte and the last of the answer. */
export function leaves({ random, host, key, plain }: Draw): Visit {
  const operation = random.chance(0.8) ? key() : plain();
  const framing = operation.method === 'POST' && random.chance(0.5) ? 'chunked' : 'declared';
  const spelled = spell(operation, host, random, { framing });
  const moment = random.pick(MOMENTS);
  const manner = random.pick(MANNERS);
  const bytes = wholeOf(spelled).subarray(0, cutFor(moment, spelled, random));
  const waitMs = moment === 'waiting' || random.chance(0.3) ? random.below(60) : 0;
  return {
    about: `${operation.name} ${operation.target} ${framing}, left (${manner}) at ${moment} after ${waitMs} ms`,
    async go(scene) {
      scene.told.asked(operation);
      const client = new RawClient(scene.url);
      await client.connected;
      if (bytes.length > 0) client.write(bytes);
      if (moment === 'answer') await client.until(() => client.received.length > 0, 2_000);
      else if (waitMs > 0) await sleep(waitMs);
      for (const answer of client.answers.slice(0, 1)) scene.told.heard(operation, answer);
      client.leave(manner);
    },
  };
}

function cutFor(moment: (typeof MOMENTS)[number], { head, body }: Spelled, random: Random): number {
  switch (moment) {
    case 'before':
      return 0;
    case 'head':
      return 1 + random.below(head.length - 1);
    case 'head end':
      return head.length;
    case 'body':
      return head.length + random.below(body.length + 1);
    default:
      return head.length + body.length;
  }
}

/** Requests one after the other without waiting, by a client that may go while they are answered. */
export function pipelines({ random, host, key, plain }: Draw): Visit {
  const count = random.chance(0.2) ? 30 + random.below(30) : 2 + random.below(8);
  const operations = Array.from({ length: count }, () => (random.chance(0.7) ? key() : plain()));
  const requests = operations.map((operation) => {
    const framing = operation.method === 'POST' && random.chance(0.3) ? 'chunked' : 'declared';
    return wholeOf(spell(operation, host, random, { framing }));
  });
  const all = Buffer.concat(requests);
  const goes = random.chance(0.75);
  const bytes = goes && random.chance(0.4) ? all.subarray(0, random.below(all.length)) : all;
  const afterMs = random.below(random.chance(0.5) ? 10 : 120);
  const manner = random.pick(MANNERS);
  const fate = goes ? `left (${manner}) after ${afterMs} ms` : 'all heard';
  return {
    about: `${count} in one go, ${bytes.length} of ${all.length} bytes, ${fate}`,
    async go(scene) {
      for (const operation of operations) scene.told.asked(operation);
      const client = new RawClient(scene.url);
      await client.connected;
      client.write(bytes);
      if (goes) {
        await sleep(afterMs);
        noteAnswers(client, operations, scene);
        client.leave(manner);
        return;
      }
      await hearAll(client, operations, scene);
      client.leave('end');
    },
  };
}

/** The same request by several at once, each in a spelling of its own; some do not wait for it. */
export function duplicates({ random, host, key }: Draw): Visit {
  const operation = key();
  const count = 2 + random.below(random.chance(0.2) ? 40 : 8);
  const copies = Array.from({ length: count }, () => ({
    bytes: wholeOf(
      spell(operation, host, random, { framing: random.pick(['declared', 'chunked']) }),
    ),
    startMs: random.below(30),
    leaveMs: random.chance(0.3) ? random.below(50) : null,
    manner: random.pick(MANNERS),
  }));
  return {
    about: `${count} of the same ${operation.target} at once`,
    async go(scene) {
      scene.told.asked(operation);
      const send = async ({ bytes, startMs, leaveMs, manner }: (typeof copies)[number]) => {
        await sleep(startMs);
        const client = new RawClient(scene.url);
        client.write(bytes);
        if (leaveMs === null) await hearAll(client, [operation], scene);
        else await sleep(leaveMs);
        client.leave(manner);
      };
      await Promise.all(copies.map(send));
    },
  };
}

/** A client that loses patience and sends the same again. */
export function retries({ random, host, key }: Draw): Visit {
  const operation = key();
  const bytes = wholeOf(spell(operation, host, random));
  const pauses = Array.from({ length: 1 + random.below(4) }, () => random.below(40));
  const manner = random.pick(MANNERS);
  return {
    about: `${operation.target} given up (${manner}) after ${pauses.join(', ')} ms, then heard`,
    async go(scene) {
      scene.told.asked(operation);
      for (const pause of pauses) {
        const client = new RawClient(scene.url);
        client.write(bytes);
        await sleep(pause);
        client.leave(manner);
      }
      const client = new RawClient(scene.url);
      client.write(bytes);
      await hearAll(client, [operation], scene);
      client.leave('end');
    },
  };
}
