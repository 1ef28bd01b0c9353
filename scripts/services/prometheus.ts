import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { locate } from './binaries.ts';
import { freePort } from './loopback-port.ts';
import { serverProcess } from './server-process.ts';
import { createWorkFolder } from './work-folder.ts';

export interface PrometheusOptions {
  /** Host and port of what it scrapes, under the job `onceward`. */
  readonly targets: readonly string[];
  /** The text of a rules file. */
  readonly rules: string;
}

export interface PrometheusServer {
  readonly url: string;
  dispose(): Promise<void>;
}

/** A Prometheus that scrapes and evaluates every second. */
export async function startPrometheus(options: PrometheusOptions): Promise<PrometheusServer> {
  const folder = createWorkFolder('prometheus', null);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const config = join(folder.path, 'prometheus.json');
  writeFileSync(join(folder.path, 'rules.yml'), options.rules);
  // JSON is YAML, and needs no quoting rules of its own.
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
      rule_files: ['rules.yml'],
      scrape_configs: [{ job_name: 'onceward', static_configs: [{ targets: options.targets }] }],
    }),
  );
  const server = serverProcess(folder, {
    name: 'prometheus',
    program: locate('prometheus'),
    args: [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder.path, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    account: null,
    stopSignal: 'SIGTERM',
    ready: async () => {
      const answer = await fetch(`${url}/-/ready`).catch(() => null);
      return answer?.status === 200;
    },
  });
  await server.start();
  return {
    url,
    async dispose() {
      await server.stop();
      folder.remove();
    },
  };
}
