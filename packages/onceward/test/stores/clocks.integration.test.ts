import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startEtcd, startPostgres, startRedis } from '../../../../scripts/services/index.ts';
import { startChild } from './arrivals.ts';
import type { ClockOrder } from './clock-process.ts';
import type { StoreAddress } from './store-address.ts';

const TEN_MINUTES = 600_000;
const timeoutMs = 2_000;

interface Shared {
  readonly address: StoreAddress;
  dispose(): Promise<void>;
}

const STORES = {
  redis: async (): Promise<Shared> => {
    const { url, dispose } = await startRedis();
    return { address: { kind: 'redis', at: url, timeoutMs }, dispose };
  },
  postgres: async (): Promise<Shared> => {
    const { url, dispose } = await startPostgres();
    return { address: { kind: 'postgres', at: url, timeoutMs }, dispose };
  },
  etcd: async (): Promise<Shared> => {
    const { nodes, dispose } = await startEtcd(1);
    return { address: { kind: 'etcd', at: nodes[0]!.url, timeoutMs }, dispose };
  },
};

describe.each(Object.keys(STORES) as (keyof typeof STORES)[])(
  'clocks that disagree on %s',
  (kind) => {
    let shared: Shared;
    const children: ChildProcess[] = [];

    beforeAll(async () => {
      shared = await STORES[kind]();
    });
    afterAll(() => shared.dispose());
    afterEach(async () => {
      for (const child of children.splice(0)) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        child.kill('SIGKILL');
        await once(child, 'exit');
      }
    });

    async function start(offsetMs: number) {
      const args = [JSON.stringify(shared.address), String(offsetMs)];
      const child = startChild('./clock-process.ts', args);
      children.push(child);
      await once(child, 'message');
      return async (verb: ClockOrder['verb'], key = '', keepMs = 60_000, held = false) => {
        child.send({ verb, key, keepMs, held } satisfies ClockOrder);
        return (await once(child, 'message'))[0] as unknown;
      };
    }

    it('[E2] a process that starts ten minutes ahead neither repeats nor sweeps what is kept', async () => {
      const right = await start(0);
      const ahead = await start(TEN_MINUTES);
      expect(await right('run', 'ahead')).toBe('executed');
      expect(await ahead('sweep')).toMatchObject({ forgotten: 0, doubted: 0 });
      expect(await ahead('run', 'ahead')).toBe('replayed');
      expect(await right('run', 'ahead')).toBe('replayed');
    });

    it('[E2] the first arrival at such a process waits until the clocks were compared', async () => {
      const right = await start(0);
      expect(await right('run', 'first')).toBe('executed');
      const ahead = await start(TEN_MINUTES);
      expect(await ahead('run', 'first')).toBe('replayed');
    });

    it('[E11] what has really expired is absent to such a process too', async () => {
      const right = await start(0);
      const ahead = await start(TEN_MINUTES);
      expect(await right('run', 'expired', 100)).toBe('executed');
      await sleep(2_500);
      expect(await ahead('run', 'expired')).toBe('executed');
    });

    it('[E2] an answer of a process that is ten minutes behind is kept for its whole retention', async () => {
      const right = await start(0);
      const behind = await start(-TEN_MINUTES);
      expect(await behind('run', 'behind')).toBe('executed');
      expect(await right('sweep')).toMatchObject({ forgotten: 0 });
      expect(await right('run', 'behind')).toBe('replayed');
    });

    it('[E6] a lease that holds is not called lapsed by a clock that is ahead', async () => {
      const right = await start(0);
      const ahead = await start(TEN_MINUTES);
      expect(await right('run', 'lease', 60_000, true)).toBe('running');
      await sleep(200);
      expect(await ahead('sweep')).toMatchObject({ doubted: 0 });
      expect(await ahead('run', 'lease')).toBe('in_progress');
      await right('finish');
      await sleep(200);
      expect(await ahead('run', 'lease')).toBe('replayed');
    });

    it('[E6] a lease of a process that is behind holds for the others', async () => {
      const right = await start(0);
      const behind = await start(-TEN_MINUTES);
      expect(await behind('run', 'late lease', 60_000, true)).toBe('running');
      await sleep(200);
      expect(await right('sweep')).toMatchObject({ doubted: 0 });
      expect(await right('run', 'late lease')).toBe('in_progress');
    });

    it('[E11] a clock that disagrees with the store is reported, one that agrees is not', async () => {
      const right = await start(0);
      const ahead = await start(TEN_MINUTES);
      const behind = await start(-TEN_MINUTES);
      await sleep(500);
      expect(await right('events')).toEqual([]);
      const told = async (ask: typeof ahead) => {
        const [event] = (await ask('events')) as { aheadMs: number }[];
        return Math.round((event?.aheadMs ?? 0) / 10_000) * 10_000;
      };
      expect(await told(ahead)).toBe(TEN_MINUTES);
      expect(await told(behind)).toBe(-TEN_MINUTES);
    });
  },
);
