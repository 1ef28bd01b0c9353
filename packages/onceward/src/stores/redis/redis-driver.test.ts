import { EventEmitter } from 'node:events';
import { expect, it } from 'vitest';
import { openRedisStore, type RedisClient } from './index.ts';

/** As `@redis/client` 1 has it, which comes with `redis` 4: it is ended by `disconnect`. */
class OldClient extends EventEmitter {
  duplicate(): OldClient {
    return new OldClient();
  }
  async connect(): Promise<void> {}
  async disconnect(): Promise<void> {}
}

it('a client of an older driver is refused with the versions that fit', async () => {
  const client = new OldClient() as unknown as RedisClient;
  await expect(openRedisStore({ client })).rejects.toMatchObject({
    code: 'ONCE_INVALID_CONFIG',
    message: expect.stringContaining('version 5 or later, or ioredis, version 4 or later'),
  });
});
