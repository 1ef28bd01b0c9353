import { createClient } from '@redis/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../../scripts/services/index.ts';
import { openRedisStore } from './index.ts';

describe('redis with a replica', () => {
  let master: RedisServer;
  let replica: RedisServer;

  beforeAll(async () => {
    [master, replica] = await Promise.all([startRedis(), startRedis()]);
  });
  afterAll(() => Promise.all([master.dispose(), replica.dispose()]));

  async function ask(server: RedisServer, ...command: [string, ...string[]]): Promise<string> {
    const client = createClient({ url: server.url });
    await client.connect();
    const answer = String(await client.sendCommand(command));
    client.destroy();
    return answer;
  }

  it('[E12] calls itself safe without one and best effort with one, also with one attached later, and a replica is refused', async () => {
    const alone = await openRedisStore({ url: master.url, durability: 'machine' });
    expect(alone.traits.durability).toBe('machine');

    await ask(replica, 'REPLICAOF', '127.0.0.1', String(master.port));
    await expect
      .poll(() => ask(master, 'INFO', 'replication'), { timeout: 20_000 })
      .toContain('connected_slaves:1');

    // One that was attached later is noticed when the clock is read, as an engine does every half minute.
    await alone.clock();
    await expect.poll(() => alone.traits.durability, { timeout: 5_000 }).toBe('none');
    const noticed = alone.findings.find(({ setting }) => setting === 'connected_slaves');
    expect(noticed).toMatchObject({ value: '1', limits: true });
    await alone.close();

    const followed = await openRedisStore({ url: master.url });
    expect(followed.traits.durability).toBe('none');
    const finding = followed.findings.find(({ setting }) => setting === 'connected_slaves');
    expect(finding).toMatchObject({ value: '1', limits: true });
    await followed.close();
    const asked = openRedisStore({ url: master.url, durability: 'machine' });
    await expect(asked).rejects.toMatchObject({
      code: 'ONCE_INVALID_CONFIG',
      message: expect.stringContaining('a failover can lose acknowledged claims'),
    });
    const onReplica = openRedisStore({ url: replica.url });
    await expect(onReplica).rejects.toThrow(/is a replica/);
  });
});
