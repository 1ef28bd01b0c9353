/**
 * Real servers for tests and benchmarks: found or installed, started on free loopback ports in temporary folders,
 * stopped by their process ids. Servers that already run on this machine are never touched.
 */
export { canLocate, locate, type Program } from './binaries.ts';
export { type EtcdCluster, type EtcdServer, startEtcd } from './etcd.ts';
export { freePort } from './loopback-port.ts';
export { type PgBouncer, startPgBouncer } from './pgbouncer.ts';
export {
  type PostgresCluster,
  type PostgresOptions,
  type PostgresServer,
  startPostgres,
  startPostgresCluster,
} from './postgres.ts';
export { type PrometheusOptions, type PrometheusServer, startPrometheus } from './prometheus.ts';
export {
  type RedisCluster,
  type RedisOptions,
  type RedisServer,
  startRedis,
  startRedisCluster,
} from './redis.ts';
