import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, postJson, startServer } from './running-program.ts';
import { namesOf, type Scrape, scrape } from './scrape.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer({ ONCEWARD_LOG_LEVEL: 'debug', IDEMPOTENCY_MAX_BODY_BYTES: '1000' });
});
afterAll(() => server.stop());

let keys = 0;
const newKey = () => `observed-key-of-some-length-${(keys += 1)}`;

async function order(key: string, query = '', amount = 1): Promise<number> {
  const headers = { 'idempotency-key': key, authorization: 'Bearer very-secret-token' };
  const body = { item: 'a-secret-item', amount };
  const response = await postJson(`${server.url}/demo/v1/orders${query}`, body, headers);
  await response.arrayBuffer();
  return response.status;
}

/** How much each series rose while something was done. */
async function risen(work: () => Promise<unknown>): Promise<(series: string) => number> {
  const before = await scrape(server.url);
  await work();
  const after = await scrape(server.url);
  return (series) => (after.get(series) ?? 0) - (before.get(series) ?? 0);
}

describe('[H17] the metrics', () => {
  it('count misses, hits, replays and what was settled', async () => {
    const key = newKey();
    const rise = await risen(async () => {
      for (let index = 0; index < 3; index += 1) await order(key);
    });
    expect(rise('onceward_misses_total')).toBe(1);
    expect(rise('onceward_hits_total{tier="store"}')).toBe(1);
    expect(rise('onceward_hits_total{tier="near"}')).toBe(1);
    expect(rise('onceward_replays_total')).toBe(2);
    expect(rise('onceward_settled_total{state="committed"}')).toBe(1);
    expect(rise('onceward_records{state="committed"}')).toBe(1);
  });

  it('count conflicts, concurrency and the time that was waited', async () => {
    const key = newKey();
    const rise = await risen(async () => {
      await Promise.all([order(key, '?delay_ms=300'), order(key, '?delay_ms=300')]);
      await order(key, '?delay_ms=300', 2);
    });
    expect(rise('onceward_conflicts_total')).toBe(1);
    expect(rise('onceward_concurrent_total{result="waited"}')).toBe(1);
    expect(rise('onceward_wait_seconds_count')).toBe(1);
    expect(rise('onceward_wait_seconds_sum')).toBeGreaterThan(0.05);
  });

  it('count what is not kept: streams and long answers', async () => {
    const rise = await risen(async () => {
      await order(newKey(), '?stream=2');
      await order(newKey(), '?bytes=5000');
    });
    expect(rise('onceward_streaming_skipped_total')).toBe(1);
    expect(rise('onceward_body_too_large_total{side="response"}')).toBe(1);
  });

  it('show what is running and what is in doubt', async () => {
    const running = order(newKey(), '?delay_ms=1500');
    let seen: Scrape = new Map();
    for (let tries = 0; tries < 50 && seen.get('onceward_in_flight') !== 1; tries += 1) {
      seen = await scrape(server.url);
    }
    expect(seen.get('onceward_in_flight')).toBe(1);
    await running;
    const rise = await risen(() => order(newKey(), '?crash=1'));
    expect(rise('onceward_in_doubt')).toBe(1);
    expect(rise('onceward_doubts_total{reason="outcome_unknown"}')).toBe(1);
  });

  it('count the operations API alike', async () => {
    const reserve = (fingerprint: string) =>
      postJson(
        `${server.url}/v1/operations/reserve`,
        { scope: 's', key: 'metrics', fingerprint, wait_ms: 0 },
        ADMIN,
      );
    const rise = await risen(async () => {
      await reserve('f');
      await reserve('f');
      await reserve('other');
    });
    expect(rise('onceward_misses_total')).toBe(1);
    expect(rise('onceward_concurrent_total{result="refused"}')).toBe(1);
    expect(rise('onceward_conflicts_total')).toBe(1);
  });

  it('name no key, no scope and no path that a caller made up', async () => {
    await fetch(`${server.url}/made-up/${newKey()}`);
    const text = await (await fetch(`${server.url}/metrics`)).text();
    expect(text).not.toMatch(/observed-key|made-up|POST \/demo/);
  });

  it('are those of the documents, no more and no fewer', async () => {
    const page = readFileSync(join(ROOT, 'docs/reference/metrics.md'), 'utf8');
    const documented = [...page.matchAll(/^\| `(onceward_\w+)` \|/gm)].map(([, name]) => name);
    const served = [...namesOf(await scrape(server.url))]
      .filter((name) => name.startsWith('onceward_'))
      .map((name) => name.replace(/_(bucket|sum|count)$/, ''));
    expect([...new Set(served)].sort()).toEqual(documented.sort());
  });
});

describe('[H17] the dashboard', () => {
  const dashboard = JSON.parse(readFileSync(join(ROOT, 'deploy/grafana/onceward.json'), 'utf8'));
  const rules = readFileSync(join(ROOT, 'deploy/prometheus/rules.yml'), 'utf8');
  const recorded = [...rules.matchAll(/- record: (\S+)/g)].map(([, name = '']) => name);
  const panels = dashboard.panels as { title: string; targets: { expr: string }[] }[];

  it('asks only for metrics that exist', async () => {
    const served = namesOf(await scrape(server.url));
    const known = new Set([...served, ...recorded]);
    const unknown = panels.flatMap(({ title, targets }) =>
      targets
        .flatMap(({ expr }) => metricsIn(expr))
        .filter((name) => !known.has(name))
        .map((name) => `${title}: ${name}`),
    );
    expect(unknown).toEqual([]);
  });

  it('and the rules ask only for metrics that exist', async () => {
    const known = new Set([...namesOf(await scrape(server.url)), ...recorded]);
    const asked = [...rules.matchAll(/\bonceward[_:][\w:]+/g)].map(([name]) => name);
    expect(asked.filter((name) => !known.has(name))).toEqual([]);
  });

  it('shows every metric that a requirement names', () => {
    const shown = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => metricsIn(expr)));
    for (const name of [
      'hits_total',
      'misses_total',
      'replays_total',
      'conflicts_total',
      'concurrent_total',
      'wait_seconds_bucket',
      'in_flight',
      'in_doubt',
      'records',
      'stale_keys',
      'store_errors_total',
      'streaming_skipped_total',
      'body_too_large_total',
      'evictions_total',
    ]) {
      expect(shown).toContain(`onceward_${name}`);
    }
  });
});

function metricsIn(expr: string): string[] {
  return [...expr.matchAll(/\b((?:onceward|process|nodejs)[_:][\w:]+)/g)].map(
    ([, name = '']) => name,
  );
}

describe('[U6] the log', () => {
  it('has a line with a stable name for what happens, and names keys by a mask only', async () => {
    const key = newKey();
    await order(key);
    await order(key);
    await order(key, '', 2);
    await order('not a key at all');
    await order(newKey(), '?crash=1');
    await new Promise((resolve) => setTimeout(resolve, 300));
    const { stderr } = server.program;
    const lines = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const events = new Set(lines.map(({ event }) => event));
    for (const name of [
      'idempotency_cache_miss',
      'idempotency_cache_hit',
      'idempotency_key_mismatch',
      'idempotency_key_invalid',
      'idempotency_in_doubt',
    ]) {
      expect(events).toContain(name);
    }
    const hit = lines.find(({ event }) => event === 'idempotency_cache_hit');
    expect(hit).toMatchObject({
      level: 'info',
      key: expect.stringMatching(/^observ~[0-9a-f]{8}$/),
      scope: expect.stringMatching(/^demo\|P~[0-9a-f]{8}$/),
      cached_status: 'committed',
    });
    expect(Date.now() - Date.parse(String(hit?.cached_at))).toBeLessThan(600_000);
    expect(stderr).not.toContain('"scope":"demo|POST');
    expect(stderr).not.toContain(key);
    expect(stderr).not.toMatch(/very-secret-token|a-secret-item|sk_only-for-tests/);
  });
});
