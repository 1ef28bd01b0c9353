import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { RedisCluster } from './redis-cluster.ts';
import type { Address, Command, OpenConnection, Reply } from './redis-driver.ts';

type Answer = (port: number, command: Command) => Promise<Reply>;

/** Nodes as far as this needs them: the first holds every slot. `opening` is what it takes to connect to another. */
async function clusterOf(answer: Answer, opening: () => Promise<unknown>, timeoutMs: number) {
  const sent: string[] = [];
  const nothing = async () => {};
  const openTo =
    ({ port }: Address): OpenConnection =>
    async () => {
      if (port !== 1) await opening();
      return {
        async send(command) {
          sent.push(`${port} ${command[0]}`);
          if (command[0] === 'CLUSTER') return [[0, 16_383, [Buffer.from('127.0.0.1'), 1]]];
          return answer(port, command);
        },
        subscribe: nothing,
        unsubscribe: nothing,
        close: () => {},
      };
    };
  const cluster = await RedisCluster.connect(openTo, [{ host: '127.0.0.1', port: 1 }], timeoutMs);
  return { cluster, sent };
}

describe('a call to a cluster', () => {
  it('[E12] ends in time, however many nodes it is sent on to, and is not sent after that', async () => {
    const pointing = async () => {
      await sleep(300);
      throw new Error('MOVED 1 127.0.0.1:2');
    };
    const { cluster, sent } = await clusterOf(pointing, () => sleep(1_200), 500);
    const began = performance.now();
    await expect(cluster.run('key', ['GET', 'key'])).rejects.toMatchObject({
      code: 'ONCE_STORE_UNAVAILABLE',
    });
    expect(performance.now() - began).toBeLessThan(1_200);
    await sleep(1_200);
    expect(sent).not.toContain('2 GET');
    cluster.close();
  });

  it('[E12] gets its own reply, and not that of ASKING', async () => {
    const moving: Answer = async (port, [name]) => {
      if (port === 1) throw new Error('ASK 1 127.0.0.1:2');
      if (name === 'ASKING') throw new Error('NOPERM this user has no permissions');
      return 1;
    };
    const { cluster, sent } = await clusterOf(moving, async () => {}, 1_000);
    expect(await cluster.run('key', ['SETNX', 'key', 'value'])).toBe(1);
    expect(sent.slice(-2)).toEqual(['2 ASKING', '2 SETNX']);
    cluster.close();
  });

  it('[E12] fails once where both are cut off', async () => {
    const cut: Answer = async (port) => {
      throw new Error(port === 1 ? 'ASK 1 127.0.0.1:2' : 'read ECONNRESET');
    };
    const { cluster } = await clusterOf(cut, async () => {}, 1_000);
    await expect(cluster.run('key', ['GET', 'key'])).rejects.toMatchObject({ applied: 'unknown' });
    // A second failure that nobody awaits would end the process, and this test.
    await sleep(20);
    cluster.close();
  });
});
