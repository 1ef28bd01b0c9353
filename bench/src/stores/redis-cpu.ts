import type { createClient } from '@redis/client';

/** Processor time of the server so far, its background threads included, in microseconds. */
export async function readRedisCpu(client: ReturnType<typeof createClient>): Promise<number> {
  const info = await client.info('cpu');
  const seconds = (name: string) =>
    Number(new RegExp(`^used_cpu_${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
  return (seconds('user') + seconds('sys')) * 1e6;
}
