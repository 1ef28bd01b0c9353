import { get } from 'node:http';
import { join } from 'node:path';
import { locate } from './binaries.ts';
import { freePort } from './loopback-port.ts';
import { type ServerProcess, serverProcess } from './server-process.ts';
import { createWorkFolder } from './work-folder.ts';

export interface EtcdServer extends ServerProcess {
  readonly url: string;
  readonly port: number;
}

export interface EtcdCluster {
  readonly nodes: readonly EtcdServer[];
  readonly endpoints: readonly string[];
  dispose(): Promise<void>;
}

/** One node or three; they form one cluster that is ready when this returns. */
export async function startEtcd(size: 1 | 3 = 1): Promise<EtcdCluster> {
  const folder = createWorkFolder('etcd', null);
  const members: { name: string; client: number; peer: number }[] = [];
  for (let at = 0; at < size; at++) {
    members.push({ name: `node${at}`, client: await freePort(), peer: await freePort() });
  }
  const program = locate('etcd');
  const nodes = members.map(({ name, client, peer }) => {
    const url = `http://127.0.0.1:${client}`;
    const peerUrl = `http://127.0.0.1:${peer}`;
    const server = serverProcess(folder, {
      name,
      program,
      args: [
        ...['--name', name, '--data-dir', join(folder.path, name), '--log-level', 'error'],
        ...['--listen-client-urls', url, '--advertise-client-urls', url],
        ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
        '--initial-cluster',
        members.map((m) => `${m.name}=http://127.0.0.1:${m.peer}`).join(','),
      ],
      account: null,
      stopSignal: 'SIGTERM',
      ready: () => isHealthy(url),
    });
    return Object.assign(server, { url, port: client });
  });
  await Promise.all(nodes.map((node) => node.start()));
  return {
    nodes,
    endpoints: nodes.map((node) => node.url),
    async dispose() {
      // Not an orderly stop: a leader would look for a successor among members that are leaving too.
      await Promise.all(nodes.map((node) => node.kill().catch(() => {})));
      folder.remove();
    },
  };
}

/** Healthy means that a proposal went through: a node without a leader is not. */
function isHealthy(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(`${url}/health`, { timeout: 2_000 }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.once('timeout', () => request.destroy());
    request.once('error', () => resolve(false));
  });
}
