import { createClient } from '@redis/client';
import { openRedisStore } from 'onceward/redis';
import { type RedisOptions, startRedis } from '../../../scripts/services/index.ts';
import type { BenchOptions } from '../benches.ts';
import { type CycleTarget, measureCycles, SAMPLE } from '../engine/cycles.ts';
import { median, type Report } from '../report.ts';
import { readRedisCpu } from './redis-cpu.ts';
import { storeTarget } from './store-target.ts';

const IN_FLIGHT = 64;
/** Revision, state and due time, which stand before a record's bytes. */
const HEAD_BYTES = 16;
const PLAIN = 'two plain SETs';

const claim = Buffer.concat([Buffer.alloc(HEAD_BYTES), SAMPLE.claim]);
const settled = Buffer.concat([Buffer.alloc(HEAD_BYTES), SAMPLE.commit]);

/** What a new operation costs the server, against two SETs of the same keys and sizes through a driver. */
export async function benchRedis(report: Report, options: BenchOptions): Promise<void> {
  for (const appendfsync of ['no', 'everysec', 'always'] as const) {
    await compare(report, options, { appendfsync });
  }
}

async function compare(
  report: Report,
  { quick }: BenchOptions,
  setting: RedisOptions,
): Promise<void> {
  const rounds = quick ? 1 : 3;
  const ms = quick ? 1_000 : 2_000;
  const server = await startRedis(setting);
  const client = createClient({ url: server.url });
  await client.connect();
  const targets = [plainTarget(client), await storeOn(server.url)];
  const samples = new Map<CycleTarget, Sample[]>(targets.map((one) => [one, []]));
  try {
    for (let round = 0; round < rounds; round += 1) {
      for (const target of targets) {
        await measureCycles(target, IN_FLIGHT, ms / 4);
        samples.get(target)!.push(await measureBoth(target, ms, () => readRedisCpu(client)));
        await client.flushAll();
      }
    }
  } finally {
    for (const target of targets) await target.close();
    client.destroy();
    await server.dispose();
  }
  const mode = setting.appendfsync === 'no' ? 'no file' : setting.appendfsync;
  const [plain] = targets as [CycleTarget, CycleTarget];
  for (const target of targets) {
    for (const [metric, pick] of METRICS) {
      const value = median(samples.get(target)!.map(pick));
      const ratio = value / median(samples.get(plain)!.map(pick));
      const compared = target === plain ? {} : { against: PLAIN, ratio };
      report({ bench: 'stores', case: `${target.name} (${mode})`, metric, value, ...compared });
    }
  }
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly redisMicros: number;
}

const METRICS: readonly (readonly [string, (sample: Sample) => number])[] = [
  ['µs Redis CPU/cycle', ({ redisMicros }) => redisMicros],
  ['µs CPU/cycle', ({ cpuMicros }) => cpuMicros],
  ['cycles/s', ({ perSecond }) => perSecond],
];

async function measureBoth(
  target: CycleTarget,
  ms: number,
  redisCpu: () => Promise<number>,
): Promise<Sample> {
  let cycles = 0;
  const counted: CycleTarget = {
    ...target,
    cycle(id) {
      cycles += 1;
      return target.cycle(id);
    },
  };
  const before = await redisCpu();
  const sample = await measureCycles(counted, IN_FLIGHT, ms);
  return { ...sample, redisMicros: ((await redisCpu()) - before) / cycles };
}

interface Client {
  sendCommand(args: (string | Buffer)[]): Promise<unknown>;
}

function plainTarget(client: Client): CycleTarget {
  return {
    name: PLAIN,
    async cycle({ scope, key }) {
      const name = `onceward:{${scope.length}:${scope}${key}}`;
      await client.sendCommand(['SET', name, claim]);
      await client.sendCommand(['SET', name, settled]);
    },
    close: async () => {},
  };
}

async function storeOn(url: string): Promise<CycleTarget> {
  const store = await openRedisStore({ url, timeoutMs: 10_000 });
  return storeTarget('Redis store', store);
}
