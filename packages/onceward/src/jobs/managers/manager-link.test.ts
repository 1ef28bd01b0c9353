import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Engine } from '../../engine/engine.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { nodeWorld } from '../../runtime/node-world.ts';
import { memoryStore } from '../../stores/memory/memory-store.ts';
import { sharedStore } from '../../testing/stores/troubled-store.ts';
import { builtInTypes } from '../built-in-types.ts';
import { Gate } from '../gate.ts';
import {
  digestOf,
  isSigned,
  SIGNATURE_HEADER,
  signBody,
  signDigest,
  signedDigest,
} from '../signature.ts';
import { submissionOf } from '../submission.ts';
import { jobWindows } from '../windows.ts';
import { JobManager } from './manager.ts';
import { ManagerEndpoint } from './manager-endpoint.ts';
import { ManagerLink } from './manager-link.ts';
import { ManagerPool } from './manager-pool.ts';
import { CALLS_PATH, LINES_TYPE } from './manager-protocol.ts';

const SECRET = 'a secret of the tests';
const closing: (() => Promise<unknown> | undefined)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return text;
}

async function listen(
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<{ url: URL; server: Server }> {
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return { url: new URL(`http://127.0.0.1:${port}`), server };
}

const world = nodeWorld();

function startManager(store = sharedStore(memoryStore())) {
  const engine = new Engine({ store, world, platform: nodePlatform() });
  const manager = new JobManager({ engine, world, types: builtInTypes });
  closing.push(async () => {
    await manager.close(0);
    await engine.close();
  });
  const endpoint = new ManagerEndpoint({ jobs: manager, windows: jobWindows, secret: SECRET });
  return listen(async (request, response) => {
    const signature = request.headers[SIGNATURE_HEADER] as string | undefined;
    const digest = endpoint.expectedDigest(signature, Date.now());
    const body = await textOf(request);
    if (digestOf(body) !== digest) {
      response.writeHead(401).end();
      return;
    }
    if (request.url === CALLS_PATH) {
      response.end(JSON.stringify(await endpoint.answerCall(body)));
      return;
    }
    response.writeHead(200, { 'content-type': LINES_TYPE }).flushHeaders();
    await endpoint.answerSubmissions(body, (line) => response.write(line));
    response.end();
  });
}

function linkTo(url: URL, secret = SECRET, silenceMs = 10_000): ManagerLink {
  const link = new ManagerLink({ url, secret, silenceMs });
  closing.push(async () => link.close());
  return link;
}

function submission(sequence: number, type = 'echo', payload: unknown = { n: 1 }) {
  const key = `host:${sequence}:a1b2c3d4e5f60718`;
  return submissionOf({ tenant: 'shop', key, type, payload });
}

describe('a link to a manager', () => {
  it('[J6] carries submissions, look-ups, lists and cancellations', async () => {
    const { url } = await startManager();
    const link = linkTo(url);
    const answers = await Promise.all(
      Array.from({ length: 700 }, (_, i) => link.submit(submission(i), 1_000)),
    );
    const ids = answers.map((answer) => ('jobId' in answer ? answer.jobId : ''));
    expect(new Set(ids).size).toBe(700);
    const again = await link.submit(submission(3), 1_000);
    expect(again).toMatchObject({ jobId: ids[3], wasDuplicate: true });
    expect(await link.find('shop', ids[3]!)).toMatchObject({ jobId: ids[3], type: 'echo' });
    expect(await link.find('other', ids[3]!)).toBeNull();
    expect((await link.list({ tenant: 'shop', limit: 5 })).jobs).toHaveLength(5);
    expect(await link.cancel('shop', 'no such job')).toBe('unknown');
    expect(await link.windows()).toEqual(jobWindows);
  });

  it('[J6] is refused by a manager that has another secret', async () => {
    const { url } = await startManager();
    const link = linkTo(url, 'another secret of the tests');
    await expect(link.submit(submission(1), 100)).rejects.toThrow('401');
  });

  it('[J6] takes a manager that falls silent for dead', async () => {
    const { url } = await listen(async (request) => {
      await textOf(request);
    });
    const link = linkTo(url, SECRET, 100);
    await expect(link.submit(submission(1), 100)).rejects.toThrow('silent');
  });

  it('[J6] rejects submissions without an answer when the response ends early', async () => {
    const { url } = await listen(async (request, response) => {
      await textOf(request);
      response.end('[0,{"status":"refused","why":"in_doubt"}]\n');
    });
    const link = linkTo(url);
    const [first, second] = await Promise.allSettled([
      link.submit(submission(1), 100),
      link.submit(submission(2), 100),
    ]);
    expect(first).toMatchObject({ value: { why: 'in_doubt' } });
    expect(second).toMatchObject({ reason: { code: 'ONCE_STORE_UNAVAILABLE' } });
  });
});

describe('gates over managers that share a store', () => {
  it('[J2] [J6] make one job of 1,000 simultaneous retries at three gates, and all answers agree', async () => {
    const store = sharedStore(memoryStore());
    const managers = [await startManager(store), await startManager(store)];
    const gates = Array.from({ length: 3 }, () => {
      const links = managers.map(({ url }) => linkTo(url));
      return new Gate({ manager: new ManagerPool({ links, world }), world });
    });
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, (_, i) => gates[i % 3]!.submit(submission(1))),
    );
    for (const gate of gates) gate.close();
    const ids = new Set(answers.map((answer) => ('jobId' in answer ? answer.jobId : answer)));
    expect(ids.size).toBe(1);
    expect(answers.filter((one) => 'wasDuplicate' in one && !one.wasDuplicate)).toHaveLength(1);
  });

  it('[J6] go on with the manager that is left, under the same job', async () => {
    const store = sharedStore(memoryStore());
    const managers = [await startManager(store), await startManager(store)];
    const links = managers.map(({ url }) => linkTo(url));
    const pool = new ManagerPool({ links, world, windows: jobWindows });
    const first = await pool.submit(submission(1), 1_000);
    managers[0]!.server.closeAllConnections();
    await new Promise((resolve) => managers[0]!.server.close(resolve));
    for (let i = 0; i < 4; i += 1) {
      const again = await pool.submit(submission(1), 1_000);
      expect(again).toMatchObject({ jobId: 'jobId' in first && first.jobId, wasDuplicate: true });
    }
    expect(await pool.checkWindows()).toBe(1);
  });

  it('[J5] are not asked when their windows are shorter than the gate’s, whenever that is found', async () => {
    const { url } = await startManager();
    const misfits: string[] = [];
    const pool = new ManagerPool({
      links: [linkTo(url)],
      world,
      windows: { ...jobWindows, committedMs: 400_000 },
      onMisfit: ({ message }) => misfits.push(message),
    });
    await expect(pool.checkWindows()).rejects.toThrow('IDEMPOTENCY_COMMITTED_TTL_SECONDS');
    expect(await pool.submit(submission(1), 100)).toMatchObject({ why: 'unavailable' });
    expect(misfits).toHaveLength(1);
    const fitting = new ManagerPool({ links: [linkTo(url)], world, windows: jobWindows });
    expect(await fitting.submit(submission(1), 100)).toMatchObject({ wasDuplicate: false });
  });

  it('[J6] say unavailable when no manager is left', async () => {
    const gone = await startManager();
    await new Promise((resolve) => gone.server.close(resolve));
    const pool = new ManagerPool({ links: [linkTo(gone.url)], world });
    expect(await pool.submit(submission(1), 100)).toMatchObject({ why: 'unavailable' });
    await expect(pool.find('shop', 'x')).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
  });
});

describe('a signature', () => {
  const now = Date.UTC(2030, 0, 1);

  it('[J6] holds for the body, the secret and five minutes', () => {
    const signature = signBody(SECRET, '{"a":1}', now);
    expect(isSigned(SECRET, '{"a":1}', signature, now + 299_000)).toBe(true);
    expect(isSigned(SECRET, '{"a":1}', signature, now + 301_000)).toBe(false);
    expect(isSigned(SECRET, '{"a":2}', signature, now)).toBe(false);
    expect(isSigned('some other secret', '{"a":1}', signature, now)).toBe(false);
    expect(isSigned(SECRET, '{"a":1}', signature.replace('t=1', 't=2'), now)).toBe(false);
    expect(isSigned(SECRET, '{"a":1}', undefined, now)).toBe(false);
  });

  it('[J6] of a digest is checked before the body is there, and says what the body must be', () => {
    const signature = signDigest(SECRET, '{"a":1}', now);
    expect(signedDigest(SECRET, signature, now + 299_000)).toBe(digestOf('{"a":1}'));
    expect(signedDigest(SECRET, signature, now + 301_000)).toBe(null);
    expect(signedDigest('some other secret', signature, now)).toBe(null);
    const other = signature.replace(digestOf('{"a":1}'), digestOf('{"a":2}'));
    expect(signedDigest(SECRET, other, now)).toBe(null);
    expect(signedDigest(SECRET, signBody(SECRET, '{"a":1}', now), now)).toBe(null);
    expect(signedDigest(SECRET, undefined, now)).toBe(null);
  });
});
