import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page as Tab } from 'playwright-core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BrowserRig, bundlePage } from '../../../packages/onceward/test/client/browser-rig.ts';
import { startGateway } from '../../../packages/server/test/running-gateway.ts';
import { ADMIN } from '../../../packages/server/test/running-program.ts';
import { type Charge, type Ending, findComplaints } from './journal.ts';
import { serveCharge } from './storm-api.ts';

let charges: Charge[];
let isStormy: boolean;
let upstream: Server;
let gateway: Awaited<ReturnType<typeof startGateway>>;
let rig: BrowserRig;

beforeEach(async () => {
  charges = [];
  isStormy = true;
  const api = { isStormy: () => isStormy, charge: (charge: Charge) => void charges.push(charge) };
  upstream = createServer((request, response) => {
    serveCharge(api, request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const { port } = upstream.address() as AddressInfo;
  gateway = await startGateway(['--upstream', `http://127.0.0.1:${port}`], {
    ONCEWARD_UPSTREAM_TIMEOUT_SECONDS: '0.5',
    IDEMPOTENCY_COMMITTED_TTL_SECONDS: '3600',
    IDEMPOTENCY_REJECTED_TTL_SECONDS: '3600',
  });
  rig = await BrowserRig.start(gateway.url);
  await servePage();
});
afterEach(async () => {
  await rig.stop();
  await gateway.stop();
  upstream.closeAllConnections();
  await new Promise((resolve) => upstream.close(resolve));
});

/** The page comes out of the test's hand: only what it sends goes through the gateway. */
async function servePage(): Promise<void> {
  const files = await bundlePage();
  await rig.context.route(
    ({ pathname }) => files[pathname] !== undefined,
    (route) => {
      const file = files[new URL(route.request().url()).pathname];
      return route.fulfill({ contentType: file?.type ?? '', body: file?.text ?? '' });
    },
  );
}

function openOutbox(tab: Tab): Promise<void> {
  return tab.evaluate(() => {
    globalThis.outbox = page.open({
      retry: { baseMs: 50, capMs: 300, maxAttempts: 6, timeoutMs: 3_000 },
      breaker: { failures: 1_000, windowMs: 1_000, openMs: 50 },
    });
  });
}

/** Two orders of one lane, a group, and a group whose second step is refused. */
function queue(tab: Tab, batch: string): Promise<void> {
  return tab.evaluate(async (batch) => {
    const request = (name: string, more: object = {}) => ({
      url: '/charges',
      json: { name, undo: false, refuse: false, ...more },
    });
    const step = (name: string, refuse = false) => ({
      ...request(name, { refuse }),
      undo: request(name, { undo: true }),
    });
    const { outbox } = globalThis;
    await Promise.all([
      outbox?.enqueue(request(`${batch}-a`), { lane: batch, label: `${batch}-a` }),
      outbox?.enqueue(request(`${batch}-b`), { lane: batch, label: `${batch}-b` }),
      outbox?.enqueueGroup([step(`${batch}-one`), step(`${batch}-two`)], {
        label: `${batch}-group`,
      }),
      outbox?.enqueueGroup([step(`${batch}-first`), step(`${batch}-no`, true)], {
        label: `${batch}-back`,
      }),
    ]);
  }, batch);
}

async function crash(tab: Tab): Promise<void> {
  const session = await rig.context.newCDPSession(tab);
  const crashed = new Promise((resolve) => tab.once('crash', resolve));
  // It gets no answer: there is nobody left to give one.
  session.send('Page.crash').catch(() => {});
  await crashed;
}

async function settle(tab: Tab): Promise<void> {
  const limit = performance.now() + 60_000;
  while ((await tab.evaluate(() => page.count('waiting'))) > 0) {
    if (performance.now() > limit) throw new Error('some still wait');
    await sleep(100);
  }
}

/** An operator checks what was charged, and resolves each doubt. */
async function resolveDoubts(): Promise<void> {
  const path = `${gateway.admin}/admin/idempotency`;
  const listed = await fetch(`${path}/recent?limit=1000&state=in_doubt`, { headers: ADMIN });
  const { records } = (await listed.json()) as { records: { scope: string; key: string }[] };
  for (const { scope, key } of records) {
    const as = charges.some((charge) => charge.key === key) ? 'committed' : 'void';
    const id = [scope, key].map(encodeURIComponent).join('/');
    const answer = await fetch(`${path}/${id}/resolve`, {
      method: 'POST',
      headers: { ...ADMIN, 'content-type': 'application/json' },
      body: JSON.stringify({ as, reason: 'looked' }),
    });
    expect(answer.status).toBe(200);
  }
}

async function endingsOf(tab: Tab, batches: readonly string[]): Promise<Ending[]> {
  const stored = await tab.evaluate(async () => {
    const storage = page.client.indexedDbStorage();
    const found = await Promise.all(
      ['failed/', 'done/'].map((prefix) => storage.range({ prefix, limit: 10_000 })),
    );
    return found.flat().map(({ entry }) => {
      const { label, state, outcome = null } = entry as unknown as Record<string, string>;
      return { label, state, outcome };
    });
  });
  const parts = { a: ['a'], b: ['b'], group: ['one', 'two'], back: ['first', 'no'] };
  return batches.flatMap((batch) =>
    Object.entries(parts).map(([label, names]) => {
      const found = stored.find((one) => one.label === `${batch}-${label}`);
      return {
        names: names.map((name) => `${batch}-${name}`),
        state: (found?.state ?? 'gone') as Ending['state'],
        outcome: found?.outcome ?? null,
        wasCancelled: false,
      };
    }),
  );
}

describe('Chromium before a real gateway, and an API that acts and falls silent', () => {
  it('[E16] [C14] [C15] reloads, tab crashes and kill -9 of the browser leave one effect for each intention, and every report is true', {
    timeout: 180_000,
  }, async () => {
    const batches: string[] = [];
    for (const end of ['reload', 'crash', 'kill'] as const) {
      const batch = `batch-${end}`;
      batches.push(batch);
      const tab = await rig.openTab();
      await openOutbox(tab);
      await queue(tab, batch);
      await sleep(Math.random() * 800);
      if (end === 'reload') await tab.reload();
      if (end === 'crash') await crash(tab);
      if (end === 'kill') {
        await rig.killAndRestart();
        await servePage();
      }
    }
    isStormy = false;
    const tab = await rig.openTab();
    await openOutbox(tab);
    for (let round = 0; round < 3; round += 1) {
      await settle(tab);
      await resolveDoubts();
      await tab.evaluate(async () => {
        for await (const { id, outcome } of globalThis.outbox?.failed.list() ?? []) {
          if (outcome === 'unknown') await globalThis.outbox?.failed.retry(id);
        }
      });
    }
    await settle(tab);
    const endings = await endingsOf(tab, batches);
    expect(findComplaints(charges, endings)).toEqual([]);
    expect(endings.filter(({ state }) => state === 'done').length).toBeGreaterThan(4);
    expect(endings.filter(({ outcome }) => outcome === 'unknown')).toEqual([]);
  });
});
