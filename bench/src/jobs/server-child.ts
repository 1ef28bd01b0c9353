import { buildApp, compose, loadConfig, programLog } from '@onceward/server';
import fastify from 'fastify';

/** What is measured: a bare Fastify, the whole server with or without running jobs, a gate or a manager alone. */
export type JobServerKind = 'bare' | 'intake' | 'both' | 'gate' | 'manager';

interface Listening {
  listen(options: { host: string; port: number }): Promise<string>;
}

/** Answers as a gate does, with nothing behind it. */
function bareFastify(): Listening {
  const app = fastify();
  let jobs = 0;
  app.post<{ Body: { type: string; payload: unknown } }>('/jobs', async (request, reply) => {
    jobs += 1;
    reply.code(202);
    return {
      job_id: `6b1f3c5e-0000-4000-8000-${String(jobs).padStart(12, '0')}`,
      status: 'committed',
      idempotency_key: request.headers['idempotency-key'],
      was_duplicate: false,
      original_job_id: null,
    };
  });
  return app;
}

async function onceward(kind: JobServerKind, data: string, managers: string): Promise<Listening> {
  const env = {
    ONCEWARD_ROLE: kind === 'intake' ? 'both' : kind,
    ...(kind === 'intake' ? { ONCEWARD_JOB_CONCURRENCY: '0' } : {}),
    ONCEWARD_MAX_JOBS_PER_TENANT: '10000000',
    LEDGER_ENABLED: 'false',
    ONCEWARD_DATA: data,
    ONCEWARD_CLUSTER_SECRET: 'a-secret-of-the-bench',
    ONCEWARD_MANAGERS: managers,
    ONCEWARD_LOG_LEVEL: 'error',
  };
  const program = await compose(loadConfig({ env }), programLog('error'));
  return buildApp(program, { demo: false });
}

const [kind, data, managers = ''] = process.argv.slice(2) as [JobServerKind, string, string?];
const app = kind === 'bare' ? bareFastify() : await onceward(kind, data, managers);
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.send!({ port: Number(new URL(url).port) });
process.on('message', () => process.send!(process.cpuUsage()));
