import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startPrometheus, startRedis } from '../../../scripts/services/index.ts';
import { fires } from './promtool.ts';
import {
  CREDENTIAL,
  postJson,
  RunningProgram,
  startServer,
  temporaryFolder,
} from './running-program.ts';
import { type Scrape, scrape } from './scrape.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const RULES = join(ROOT, 'deploy/prometheus/rules.yml');
const rules = readFileSync(RULES, 'utf8');
const ALERTS = [...rules.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name = '']) => name);

let keys = 0;
const newKey = () => `alert-${(keys += 1)}`;

async function order(url: string, key: string, query = '', amount = 1): Promise<number> {
  const headers = { 'idempotency-key': key };
  const response = await postJson(`${url}/demo/v1/orders${query}`, { item: 'w', amount }, headers);
  await response.arrayBuffer();
  return response.status;
}

/** What is usual: new requests, and a repeat now and then. */
async function quietTraffic(url: string): Promise<void> {
  for (let index = 0; index < 19; index += 1) await order(url, newKey());
  await order(url, `alert-${keys}`);
}

/** A storm: for each new request nine repeats, some while it runs, some with another body. */
async function stormyTraffic(url: string): Promise<void> {
  for (let index = 0; index < 10; index += 1) {
    const key = newKey();
    await order(url, key);
    await order(url, key);
  }
  const key = `alert-${keys}`;
  await Promise.all(Array.from({ length: 80 }, () => order(url, key)));
  await Promise.all(Array.from({ length: 4 }, () => order(url, key, '', 2)));
  const running = newKey();
  await Promise.all(Array.from({ length: 5 }, () => order(url, running, '?delay_ms=30')));
}

async function rounds(url: string, count: number, traffic: (url: string) => Promise<void>) {
  const scrapes = [await scrape(url)];
  for (let round = 0; round < count; round += 1) {
    await traffic(url);
    scrapes.push(await scrape(url));
  }
  return scrapes;
}

const proven = new Set<string>();
function expectFiring(
  alert: string,
  scrapes: readonly Scrape[],
  heldSeconds = 0,
  apart?: number,
): void {
  expect({ alert, fires: fires(alert, RULES, scrapes, heldSeconds, apart) }).toEqual({
    alert,
    fires: true,
  });
  proven.add(alert);
}

describe('[H17] with the metrics of a real server', () => {
  let server: Awaited<ReturnType<typeof startServer>>;
  beforeAll(async () => {
    server = await startServer({ IDEMPOTENCY_MAX_ENTRIES: '5', ONCEWARD_LOG_LEVEL: 'fatal' });
  });
  afterAll(() => server.stop());

  it('no alert fires in quiet times', async () => {
    const quiet = await startServer({ ONCEWARD_LOG_LEVEL: 'fatal' });
    const scrapes = await rounds(quiet.url, 24, quietTraffic);
    await quiet.stop();
    const firing = ALERTS.filter((alert) => fires(alert, RULES, scrapes, 60));
    expect(firing).toEqual([]);
  });

  it('a retry storm fires what it should', async () => {
    const scrapes = await rounds(server.url, 28, stormyTraffic);
    for (const alert of [
      'OncewardHitRateHigh',
      'OncewardRetryStorm',
      'OncewardConcurrentSpike',
      'OncewardConflicts',
      'OncewardEvictions',
    ]) {
      expectFiring(alert, scrapes);
    }
  });

  it('one operation in doubt fires', async () => {
    await order(server.url, newKey(), '?crash=1');
    expectFiring('OncewardInDoubt', [await scrape(server.url)], 120);
  });

  it('expired records that pile up fire', async () => {
    const folder = temporaryFolder();
    const shared = { ONCEWARD_DATA: folder.path, ONCEWARD_LOG_LEVEL: 'fatal' };
    const first = await startServer({
      ...shared,
      IDEMPOTENCY_COMMITTED_TTL_SECONDS: '1',
      IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS: '3600',
    });
    for (let batch = 0; batch < 15; batch += 1) {
      await Promise.all(Array.from({ length: 100 }, () => order(first.url, newKey())));
    }
    await sleep(1_100);
    // A day later they are all still there, since nobody has cleaned up.
    expectFiring('OncewardRecordsGrow', [await scrape(first.url)], 26 * 3_600, 240);
    await first.stop();
    const second = await startServer({
      ...shared,
      IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS: '5',
      IDEMPOTENCY_CLEANUP_BATCH: '5',
    });
    const seen = await until(
      second.url,
      (found) => (found.get('onceward_stale_keys') ?? 0) > 1_000,
    );
    await second.stop();
    folder.remove();
    expectFiring('OncewardStaleKeys', [seen], 360);
  });

  it('a store that dies fires, and so do the effects that ran without it', async () => {
    const redis = await startRedis();
    const on = await startServer({
      ONCEWARD_STORE: 'redis',
      ONCEWARD_STORE_URL: redis.url,
      IDEMPOTENCY_ON_STORE_DOWN: 'run_unprotected',
      ONCEWARD_LOG_LEVEL: 'fatal',
    });
    const before = await scrape(on.url);
    expect(before.get('onceward_store_up')).toBe(1);
    const running = order(on.url, newKey(), '?delay_ms=700');
    await sleep(300);
    await redis.kill();
    expect(await running).toBe(201);
    expect(await order(on.url, newKey())).toBe(201);
    const after = await until(on.url, (found) => found.get('onceward_store_up') === 0);
    await on.stop();
    await redis.dispose();
    expectFiring('OncewardStoreDown', [before, after], 120);
    for (const alert of ['OncewardStoreErrors', 'OncewardUnprotected', 'OncewardUnrecorded']) {
      expectFiring(alert, [before, after]);
    }
  });

  it('an upstream that is down fires', async () => {
    const folder = temporaryFolder();
    const program = new RunningProgram(['gateway', '--upstream', 'http://127.0.0.1:9'], {
      PORT: '0',
      ONCEWARD_ADMIN_PORT: '0',
      ONCEWARD_DATA: folder.path,
      ...CREDENTIAL,
    });
    const url = await program.ready();
    const [, admin = ''] = await program.printed(/^onceward admin is on (\S+)$/m);
    const before = await scrape(admin);
    await fetch(url);
    const after = await scrape(admin);
    await program.stop();
    folder.remove();
    expectFiring('OncewardUpstreamErrors', [before, after], 90);
  });

  it('a real Prometheus fires on a real server, and when that is down', async () => {
    const own = await startServer({ ONCEWARD_LOG_LEVEL: 'fatal' });
    const prometheus = await startPrometheus({
      targets: [new URL(own.url).host],
      // The same rules with less patience.
      rules: rules.replace(/for: \d+m/g, 'for: 1s'),
    });
    const firing = async () => {
      const response = await fetch(`${prometheus.url}/api/v1/alerts`);
      const { data } = (await response.json()) as {
        data: { alerts: { state: string; labels: { alertname: string } }[] };
      };
      return data.alerts
        .filter(({ state }) => state === 'firing')
        .map(({ labels }) => labels.alertname);
    };
    const untilFiring = async (...wanted: string[]) => {
      for (let tries = 0; tries < 60; tries += 1) {
        if (tries % 3 === 0) await stormyTraffic(own.url).catch(() => {});
        const names = await firing();
        if (wanted.every((name) => names.includes(name))) return;
        await sleep(500);
      }
      expect(await firing()).toEqual(expect.arrayContaining(wanted));
    };
    await order(own.url, newKey(), '?crash=1');
    await untilFiring('OncewardInDoubt', 'OncewardHitRateHigh', 'OncewardRetryStorm');
    await own.stop();
    await untilFiring('OncewardDown');
    proven.add('OncewardDown');
    await prometheus.dispose();
  });

  it('every alert of the rules has been seen firing', () => {
    expect(ALERTS.filter((alert) => !proven.has(alert))).toEqual([]);
  });
});

async function until(url: string, reached: (found: Scrape) => boolean): Promise<Scrape> {
  let found = await scrape(url);
  for (let tries = 0; tries < 300 && !reached(found); tries += 1) {
    await sleep(100);
    found = await scrape(url);
  }
  return found;
}
