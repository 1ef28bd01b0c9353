import { createServer } from 'node:http';
import { freePort } from '../../../scripts/services/index.ts';

/** One time that a job was started, as the one who was asked to do it saw it. */
export interface Start {
  readonly jobId: string;
  readonly fence: number;
  readonly key: string;
}

/** Does the jobs of the fleet. It is never killed: what it saw is the truth about what was started. */
export interface RecordingWorker {
  readonly url: string;
  readonly starts: readonly Start[];
  close(): Promise<void>;
}

export async function startWorker(workMs: () => number): Promise<RecordingWorker> {
  const starts: Start[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      const { job_id, fence } = JSON.parse(text) as { job_id: string; fence: number };
      starts.push({ jobId: job_id, fence, key: String(request.headers['idempotency-key']) });
      setTimeout(() => response.end('{"done":true}'), workMs());
    });
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${port}`,
    starts,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
