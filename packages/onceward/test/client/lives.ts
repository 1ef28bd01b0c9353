import { afterEach, beforeEach, vi } from 'vitest';
import { type FailedOperation, groups, memoryStorage, Outbox } from '../../src/client/index.ts';
import type { OutboxOptions } from '../../src/client/outbox/outbox.ts';
import type { OutboxStorage } from '../../src/client/storages/outbox-storage.ts';
import { CountingServer } from './counting-server.ts';

export const SECOND = 1_000;
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;

export let server: CountingServer;
export let storage: OutboxStorage;
const open: Outbox[] = [];

/** Gives each test of a file its own server and storage, and a clock that only `pass` moves. */
export function freshForEachTest(): void {
  beforeEach(() => {
    vi.useFakeTimers();
    server = new CountingServer();
    changeDevice();
  });
  afterEach(async () => {
    for (const outbox of open.splice(0)) await outbox.close();
    vi.useRealTimers();
  });
}

/** The lives that begin from now on find nothing stored. */
export function changeDevice(): void {
  storage = memoryStorage();
}

/** A life of the client over the same storage and the same server; it ends with the test. */
export function life(options: Partial<OutboxOptions> = {}): Outbox {
  const outbox = new Outbox({ storage, fetch: server.fetch, groups, ...options });
  open.push(outbox);
  return outbox;
}

export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

export function order(item: string) {
  return { url: '/orders', json: { item } };
}

export async function listFailed(outbox: Outbox): Promise<FailedOperation[]> {
  const failed: FailedOperation[] = [];
  for await (const operation of outbox.failed.list()) failed.push(operation);
  return failed;
}
