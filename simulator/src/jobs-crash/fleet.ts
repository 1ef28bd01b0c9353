import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, startPostgres, startRedis } from '../../../scripts/services/index.ts';
import { OncewardProcess, type Victim } from './victim.ts';

export type FleetStore = 'wal' | 'postgres' | 'redis';

/** Two gates, their managers, and the store where it is a server of its own. */
export interface Fleet {
  readonly gates: readonly OncewardProcess[];
  readonly victims: readonly Victim[];
  dispose(): Promise<void>;
}

/** Short, so that a lost run is taken over or put in doubt while the clients still watch. */
const LEASE_SECONDS = '3';
const STORE_STARTS = 40;

export async function startFleet(store: FleetStore, workerUrl: string): Promise<Fleet> {
  const folder = mkdtempSync(join(tmpdir(), 'onceward-jobs-crash-'));
  const shared = {
    ONCEWARD_CLUSTER_SECRET: 'shared-by-the-fleet-alone',
    IDEMPOTENCY_PENDING_TTL_SECONDS: LEASE_SECONDS,
    ONCEWARD_API_KEY: 'ak_fleet',
    ONCEWARD_API_SECRET: 'sk_fleet',
  };
  const server = await startStore(store);
  const managers: OncewardProcess[] = [];
  // The embedded store has one owner; the others are shared.
  for (let i = 1; i <= (server === null ? 1 : 2); i += 1) {
    managers.push(
      new OncewardProcess(`manager ${i}`, await freePort(), {
        ...shared,
        ONCEWARD_ROLE: 'manager',
        ONCEWARD_DATA: join(folder, `manager-${i}`),
        ONCEWARD_STORE: store,
        ...(server === null ? {} : { ONCEWARD_STORE_URL: server.url }),
        ONCEWARD_JOB_WORKERS: `again=${workerUrl}/again,once:never=${workerUrl}/once`,
        ONCEWARD_JOB_WORKER_SECRET: 'shared-with-the-worker',
      }),
    );
  }
  const gates: OncewardProcess[] = [];
  for (let i = 1; i <= 2; i += 1) {
    gates.push(
      new OncewardProcess(`gate ${i}`, await freePort(), {
        ...shared,
        ONCEWARD_ROLE: 'gate',
        ONCEWARD_DATA: join(folder, `gate-${i}`),
        ONCEWARD_MANAGERS: managers.map(({ url }) => url).join(','),
      }),
    );
  }
  const processes = [...managers, ...gates];
  await Promise.all(processes.map((one) => one.start()));
  const storeVictim: Victim[] =
    server === null
      ? []
      : [{ name: 'store', kill: () => server.kill(), start: () => startPatiently(server) }];
  return {
    gates,
    victims: [...processes, ...storeVictim],
    async dispose() {
      await Promise.all(processes.map((one) => one.stop()));
      await server?.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** PostgreSQL does not start while a process of its former life is still going; a supervisor tries again. */
async function startPatiently(server: { start(): Promise<void> }): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await server.start();
    } catch (error) {
      if (tries === STORE_STARTS) throw error;
      await sleep(500);
    }
  }
}

async function startStore(store: FleetStore) {
  switch (store) {
    case 'wal':
      return null;
    case 'postgres':
      return startPostgres();
    case 'redis':
      return startRedis();
  }
}
