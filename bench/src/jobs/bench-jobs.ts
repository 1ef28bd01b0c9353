import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nodeWorld } from 'onceward';
import { Gate, type JobsPort, submissionOf } from 'onceward/jobs';
import type { BenchOptions } from '../benches.ts';
import { type MeasuredServer, runLoad, startChild } from '../http/processes.ts';
import { median, type Report } from '../report.ts';
import type { JobServerKind } from './server-child.ts';

const CONNECTIONS = 64;
const BODY = '{"type":"echo","payload":{"item":"widget","amount":4098}}';

/** Duplicates at a gate within the process; then submissions over HTTP, each a new job, against a bare Fastify. */
export async function benchJobs(report: Report, options: BenchOptions): Promise<void> {
  await benchDuplicates(report, options);
  const rounds = options.quick ? 1 : 3;
  const ms = options.quick ? 1_500 : 5_000;
  const names = ['bare', 'intake', 'both', 'split'] as const;
  const samples = Object.fromEntries(names.map((name) => [name, []])) as unknown as Samples;
  const folder = await mkdtemp(join(tmpdir(), 'onceward-bench-'));
  for (let round = 0; round < rounds; round += 1) {
    samples.bare.push(await measure([await start('bare', folder)], ms));
    samples.intake.push(await measure([await start('intake', folder)], ms));
    samples.both.push(await measure([await start('both', folder)], ms));
    const manager = await start('manager', folder);
    const gate = await start('gate', folder, `http://127.0.0.1:${manager.port}`);
    samples.split.push(await measure([gate, manager], ms));
  }
  await rm(folder, { recursive: true });
  const bare = median(samples.bare.map(({ perSecond }) => perSecond));
  const emit = (name: string, measured: readonly Sample[]) => {
    const value = median(measured.map(({ perSecond }) => perSecond));
    const figure = { bench: 'jobs', case: name } as const;
    const ratio = value / bare;
    report({ ...figure, metric: 'jobs/s', value, against: 'Fastify bare', ratio });
    const cpu = median(measured.map(({ cpuMicros }) => cpuMicros));
    report({ ...figure, metric: 'µs CPU/job', value: cpu });
  };
  emit('POST /jobs, Fastify bare', samples.bare);
  emit('POST /jobs, gate and manager in one, wal', samples.intake);
  emit('the same, and it runs the jobs', samples.both);
  emit('gate and manager apart, which runs the jobs', samples.split);
}

type Samples = Record<'bare' | 'intake' | 'both' | 'split', Sample[]>;

interface Sample {
  readonly perSecond: number;
  /** Of all processes together, running the jobs included. */
  readonly cpuMicros: number;
}

/** Each has a folder of its own within the one that is given, and begins with nothing in it. */
async function start(kind: JobServerKind, folder: string, managers = ''): Promise<MeasuredServer> {
  const data = await mkdtemp(join(folder, kind));
  return startChild(new URL('./server-child.ts', import.meta.url), [kind, data, managers]);
}

/** Jobs acknowledged by the first of these servers. */
async function measure(servers: readonly MeasuredServer[], ms: number): Promise<Sample> {
  try {
    const { port } = servers[0]!;
    const task = {
      port,
      path: '/jobs',
      connections: CONNECTIONS,
      keys: 'job',
      body: BODY,
    } as const;
    await runLoad({ ...task, ms: ms / 2 });
    const before = await cpuOf(servers);
    const { requests, seconds, refused, replayed } = await runLoad({ ...task, ms });
    const used = (await cpuOf(servers)) - before;
    if (refused > 0 || replayed !== 0) throw new Error(`${refused} refused, ${replayed} replayed`);
    return { perSecond: requests / seconds, cpuMicros: used / requests };
  } finally {
    for (const server of servers) await server.stop();
  }
}

async function cpuOf(servers: readonly MeasuredServer[]): Promise<number> {
  let total = 0;
  for (const server of servers) total += await server.cpu();
  return total;
}

const KEYS = 100_000;
const IN_SAMPLE = 1_000;

async function benchDuplicates(report: Report, { quick }: BenchOptions): Promise<void> {
  const manager: JobsPort = {
    submit: async ({ key }) => ({
      status: 'committed',
      jobId: `6b1f3c5e-0000-4000-8000-${key.slice(-12)}`,
      wasDuplicate: false,
      keepMs: 300_000,
    }),
    find: async () => null,
    list: async () => ({ jobs: [], complete: true }),
    cancel: async () => 'unknown',
  };
  const gate = new Gate({ manager, world: nodeWorld() });
  const asked = Array.from({ length: KEYS }, (_, i) => {
    const key = `host1.dc1:12345:${i}:a1b2c3d4e5f60718`;
    return submissionOf({ tenant: 'bench', key, type: 'echo', payload: { i } });
  });
  for (const one of asked) await gate.submit(one);
  const samples: number[] = [];
  for (let sample = 0; sample < (quick ? 200 : 2_000); sample += 1) {
    const began = process.hrtime.bigint();
    for (let i = 0; i < IN_SAMPLE; i += 1) {
      await gate.submit(asked[(sample * 7_919 + i) % KEYS]!);
    }
    samples.push(Number(process.hrtime.bigint() - began) / IN_SAMPLE / 1_000);
  }
  gate.close();
  report({ bench: 'jobs', case: 'gate, duplicate', metric: 'µs median', value: median(samples) });
}
