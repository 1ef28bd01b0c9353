import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startServer } from '../../../server/test/running-program.ts';
import { idempotentFetch, Outbox, replayInfo } from '../../src/client/index.ts';
import { openLogStorage } from '../../src/client/storages/node-log.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';

type RunningServer = Awaited<ReturnType<typeof startServer>>;

let folder: string;
let server: RunningServer;
let proxy: FaultProxy;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'onceward-client-'));
  server = await startServer({ ONCEWARD_DATA: join(folder, 'server') });
  proxy = await startFaultProxy(server.url);
});
afterEach(async () => {
  await proxy.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const quick = { baseMs: 20, capMs: 200, inProgressMs: 200, maxAttempts: 50 };
/** What a server of profile `http` remembers by default. */
const replayWindowMs = 5 * 60_000;

async function effects(): Promise<number> {
  const answer = await fetch(`${server.url}/demo/v1/effects`);
  return ((await answer.json()) as { orders: number }).orders;
}

function order(item: string, knobs = '') {
  return { url: `${proxy.url}/demo/v1/orders${knobs}`, json: { item, amount: 1 } };
}

async function openOutbox(retry = quick): Promise<Outbox> {
  const storage = await openLogStorage({ directory: join(folder, 'outbox') });
  const breaker = { failures: 1_000, windowMs: 1_000, openMs: 100 };
  return new Outbox({ storage, retry, breaker, replayWindowMs });
}

describe('client and server, over a way that loses things', () => {
  it('[C3] every order that is sent with the fetch wrapper is placed once', async () => {
    proxy.loseRequests = 0.2;
    proxy.loseAnswers = 0.3;
    const breaker = { failures: 1_000, windowMs: 1_000, openMs: 100 };
    const send = idempotentFetch({ retry: quick, breaker });
    const told = await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const { url, json } = order(`fetched ${i}`);
        const headers = { 'content-type': 'application/json' };
        const response = await send(url, { method: 'POST', headers, body: JSON.stringify(json) });
        await response.body?.cancel();
        return { status: response.status, ...replayInfo(response) };
      }),
    );
    expect(new Set(told.map(({ status }) => status))).toEqual(new Set([201]));
    expect(told.some(({ replayed }) => replayed)).toBe(true);
    expect(proxy.lost.answers).toBeGreaterThan(0);
    expect(await effects()).toBe(40);
  });

  it('[C4] every order that is queued is placed once', async () => {
    proxy.loseRequests = 0.2;
    proxy.loseAnswers = 0.3;
    const outbox = await openOutbox();
    const queued = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        outbox.enqueue(order(`queued ${i}`), { lane: `${i % 5}` }),
      ),
    );
    const ends = await Promise.all(queued.map(({ id }) => outbox.whenSettled(id)));
    expect(ends.map((end) => end?.state)).toEqual(Array(40).fill('done'));
    expect(await effects()).toBe(40);
    await outbox.close();
  });

  it('[C5] an order that takes longer than the client waits is placed once, and its answer arrives', async () => {
    const outbox = await openOutbox({ ...quick, ...{ timeoutMs: 500 } });
    const { id } = await outbox.enqueue(order('slow', '?delay_ms=4000'));
    expect(await outbox.whenSettled(id)).toMatchObject({
      state: 'done',
      answers: [{ status: 201, replayed: true }],
    });
    expect(await effects()).toBe(1);
    await outbox.close();
  });

  it('[C8] what the server refuses and what it does not know are distinguished', async () => {
    const outbox = await openOutbox();
    const refused = await outbox.enqueue(order('refused', '?status=422'), { lane: 'a' });
    const unknown = await outbox.enqueue(order('crashing', '?crash=1'), { lane: 'b' });
    expect(await outbox.whenSettled(refused.id)).toMatchObject({ outcome: 'refused' });
    expect(await outbox.whenSettled(unknown.id)).toMatchObject({ outcome: 'unknown' });
    await outbox.close();
  });

  it('[C4] a server that is killed and comes back places nothing twice', async () => {
    const outbox = await openOutbox();
    const queued = await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        outbox.enqueue(order(`through a crash ${i}`, '?delay_ms=10'), { lane: `${i % 4}` }),
      ),
    );
    await sleep(150);
    await server.program.stop('SIGKILL');
    server = await startServer({ ONCEWARD_DATA: join(folder, 'server') });
    proxy.target = server.url;
    const ends = await Promise.all(queued.map(({ id }) => outbox.whenSettled(id)));
    const done = ends.filter((end) => end?.state === 'done').length;
    const unknown = ends.filter(
      (end) => end?.state === 'failed' && end.outcome === 'unknown',
    ).length;
    // What was running when the server died may have happened: nobody runs it again, and nobody hides it.
    expect(done + unknown).toBe(60);
    expect(unknown).toBeLessThanOrEqual(4);
    const placed = await effects();
    expect(placed).toBeGreaterThanOrEqual(done);
    expect(placed).toBeLessThanOrEqual(60);
    await outbox.close();
  });
});
