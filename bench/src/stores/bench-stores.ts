import type { BenchOptions } from '../benches.ts';
import type { Report } from '../report.ts';
import { benchPostgres } from './bench-postgres.ts';
import { benchRedis } from './bench-redis.ts';
import { benchServers } from './bench-servers.ts';

/** The stores that are servers: alone against their own tools, then behind Fastify against Fastify bare. */
export async function benchStores(report: Report, options: BenchOptions): Promise<void> {
  await benchPostgres(report, options);
  await benchRedis(report, options);
  await benchServers(report, options);
}
