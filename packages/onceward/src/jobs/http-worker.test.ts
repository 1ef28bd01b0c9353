import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Engine } from '../engine/engine.ts';
import { MIB } from '../engine/units.ts';
import { nodePlatform } from '../runtime/node-platform.ts';
import { nodeWorld } from '../runtime/node-world.ts';
import { memoryStore } from '../stores/memory/memory-store.ts';
import { httpWorker } from './http-worker.ts';
import { defineJob, type Rerun } from './job-type.ts';
import type { JobView } from './jobs-port.ts';
import { JobManager } from './managers/manager.ts';
import { isSigned, SIGNATURE_HEADER } from './signature.ts';
import { submissionOf } from './submission.ts';

const SECRET = 'a secret of the tests';

interface Seen {
  readonly key: string | undefined;
  readonly fence: number;
  readonly isSigned: boolean;
  readonly body: { job_id: string; attempt: number; fence: number; payload: unknown };
}

const seen: Seen[] = [];
/** What the worker does with each request in turn: a status, hanging up, or success and something to read. */
let script: (number | 'hang_up' | { readonly says: string })[] = [];
let url: URL;

const worker = createServer((request, response) => {
  let text = '';
  request.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  request.on('end', () => {
    const signature = request.headers[SIGNATURE_HEADER] as string | undefined;
    seen.push({
      key: request.headers['idempotency-key'] as string | undefined,
      fence: Number(request.headers['onceward-fence']),
      isSigned: isSigned(SECRET, text, signature, Date.now()),
      body: JSON.parse(text) as Seen['body'],
    });
    const next = script.shift() ?? 200;
    if (next === 'hang_up') request.socket.destroy();
    else if (typeof next === 'object') response.end(next.says);
    else response.writeHead(next).end(JSON.stringify({ done: seen.length }));
  });
});

beforeAll(async () => {
  await new Promise<void>((resolve) => worker.listen(0, '127.0.0.1', resolve));
  url = new URL(`http://127.0.0.1:${(worker.address() as AddressInfo).port}/jobs`);
});
afterAll(() => new Promise((resolve) => worker.close(resolve)));
beforeEach(() => {
  seen.length = 0;
});

async function run(rerun: Rerun, answers: typeof script): Promise<JobView> {
  script = answers;
  const world = nodeWorld();
  const engine = new Engine({ store: memoryStore(), world, platform: nodePlatform() });
  const email = defineJob(httpWorker({ type: 'email', url, secret: SECRET, rerun, backoffMs: 10 }));
  const manager = new JobManager({ engine, world, types: [email] });
  const key = 'host:1:a1b2c3d4e5f60718';
  const payload = { to: 'someone' };
  const answer = await manager.submit(
    submissionOf({ tenant: 'shop', key, type: 'email', payload }),
  );
  const jobId = 'jobId' in answer ? answer.jobId : '';
  for (;;) {
    const job = await manager.find('shop', jobId);
    if (job !== null && job.state !== 'queued' && job.state !== 'running') {
      await manager.close(0);
      await engine.close();
      return job;
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('a worker over HTTP', () => {
  it('[J8] is sent the job, signed, with fence and derived key, and its answer is the result', async () => {
    expect(await run('safe', [])).toMatchObject({ state: 'succeeded', result: { done: 1 } });
    expect(seen[0]).toMatchObject({
      isSigned: true,
      body: { attempt: 1, payload: { to: 'someone' } },
    });
    expect(seen[0]!.fence).toBe(seen[0]!.body.fence);
    expect(seen[0]!.key).toMatch(/^[0-9a-f]{64}$/);
  });

  it('[J8] is sent the job again after a fault, under the same key and a higher fence', async () => {
    expect(await run('safe', [503, 'hang_up', 200])).toMatchObject({
      state: 'succeeded',
      attempts: 3,
    });
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
    const fences = seen.map(({ fence }) => fence);
    expect(fences[0]).toBeLessThan(fences[1]!);
    expect(fences[1]).toBeLessThan(fences[2]!);
  });

  it('[J8] ends the job by refusing it', async () => {
    const job = await run('safe', [400]);
    expect(job).toMatchObject({ state: 'failed', attempts: 1 });
    expect(job.error).toContain('400');
  });

  it('[J8] that breaks off leaves a job in doubt that may not re-run', async () => {
    expect(await run('never', ['hang_up'])).toMatchObject({ state: 'in_doubt', attempts: 1 });
    expect(seen).toHaveLength(1);
  });

  it('[J8] has done the job when it says so, in whatever words and however many', async () => {
    const plain = await run('safe', [{ says: 'OK' }]);
    expect(plain).toMatchObject({ state: 'succeeded', attempts: 1, result: 'OK', error: null });
    const long = await run('never', [{ says: JSON.stringify('x'.repeat(3 * MIB)) }]);
    expect(long).toMatchObject({ state: 'succeeded', attempts: 1, result: null });
    expect(long.error).toContain('too long to keep');
    expect(seen).toHaveLength(2);
  });

  it.each([502, 504])(
    '[J8] behind someone who answers %i leaves a job in doubt that may not re-run',
    async (status) => {
      expect(await run('never', [status])).toMatchObject({ state: 'in_doubt', attempts: 1 });
      expect(await run('safe', [status])).toMatchObject({ state: 'succeeded', attempts: 2 });
    },
  );
});
