import { setTimeout as sleep } from 'node:timers/promises';
import { parseMetrics, type Scrape } from '../scrape.ts';
import { look } from './raw-client.ts';
import type { Target } from './target.ts';

const SOCKETS = 'nodejs_active_resources{type="TCPSocketWrap"}';
/** The connection that asks. */
const OWN_SOCKET = 1;
const QUIET_MS = 8_000;

export interface Quiet {
  /** What has not come back to nought. */
  readonly left: readonly string[];
  readonly rssBytes: number;
}

/** Waits until nothing is under way any more, and says what never ended. */
export async function untilQuiet(target: Target, withSockets: boolean): Promise<Quiet> {
  const deadline = performance.now() + QUIET_MS;
  for (;;) {
    const text = await look(target.adminUrl, '/metrics');
    if (text === null) return { left: ['the metrics cannot be read'], rssBytes: 0 };
    const scraped = parseMetrics(text);
    const left = leftIn(scraped, target, withSockets);
    if (left.length === 0 || performance.now() > deadline || !target.isAlive()) {
      return { left, rssBytes: scraped.get('process_resident_memory_bytes') ?? 0 };
    }
    await sleep(25);
  }
}

function leftIn(scraped: Scrape, target: Target, withSockets: boolean): string[] {
  const left: string[] = [];
  for (const [series, value] of scraped) {
    if (target.settlesToNought.test(series) && value !== 0) left.push(`${series} is ${value}`);
  }
  const sockets = scraped.get(SOCKETS) ?? 0;
  if (withSockets && sockets > target.ownSockets + OWN_SOCKET) {
    left.push(`${sockets} sockets are open, ${target.ownSockets} of them to the upstream`);
  }
  return left;
}
