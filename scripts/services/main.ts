/**
 * Starts the named servers and keeps them until this command is interrupted:
 *
 *   node scripts/run.mjs scripts/services/main.ts redis postgres
 */
import {
  startEtcd,
  startPostgres,
  startPostgresCluster,
  startRedis,
  startRedisCluster,
} from './index.ts';

interface Started {
  readonly addresses: readonly string[];
  dispose(): Promise<void>;
}

const SERVICES: Readonly<Record<string, () => Promise<Started>>> = {
  redis: async () => {
    const server = await startRedis();
    return { addresses: [server.url], dispose: server.dispose };
  },
  'redis-cluster': async () => {
    const cluster = await startRedisCluster();
    return { addresses: cluster.nodes.map((node) => node.url), dispose: cluster.dispose };
  },
  postgres: async () => {
    const server = await startPostgres();
    return { addresses: [server.url], dispose: server.dispose };
  },
  'postgres-cluster': async () => {
    const cluster = await startPostgresCluster();
    const servers = [cluster.primary, ...cluster.standbys];
    return { addresses: servers.map((server) => server.url), dispose: cluster.dispose };
  },
  etcd: async () => {
    const cluster = await startEtcd(1);
    return { addresses: cluster.endpoints, dispose: cluster.dispose };
  },
  'etcd-cluster': async () => {
    const cluster = await startEtcd(3);
    return { addresses: cluster.endpoints, dispose: cluster.dispose };
  },
};

const names = process.argv.slice(2);
const unknown = names.filter((name) => !(name in SERVICES));
if (names.length === 0 || unknown.length > 0) {
  console.error(`Name one or more of: ${Object.keys(SERVICES).join(', ')}`);
  process.exit(2);
}

const started: Started[] = [];
for (const name of names) {
  const service = await (SERVICES[name] as () => Promise<Started>)();
  started.push(service);
  for (const address of service.addresses) console.log(`${name} ${address}`);
}
console.log('Press Ctrl-C to stop and remove them.');

const keepAlive = setInterval(() => {}, 60_000);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    clearInterval(keepAlive);
    void Promise.all(started.map((service) => service.dispose())).then(() => process.exit(0));
  });
}
