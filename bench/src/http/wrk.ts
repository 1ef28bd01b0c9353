import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { locate } from '../../../scripts/services/index.ts';
import type { LoadResult, LoadTask } from './load-child.ts';
import { BODY } from './order-body.ts';
import type { LoadProcess } from './processes.ts';

const run = promisify(execFile);

/** Each request with a key of its own. Of answers only the status is checked. */
const SCRIPT = `
local count, prefix = 0, ''
local body = '${BODY}'

function init(args)
  prefix = args[1]
end

function request()
  count = count + 1
  return 'POST ' .. wrk.path .. ' HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Type: application/json\\r\\n' ..
    'Content-Length: ' .. #body .. '\\r\\nIdempotency-Key: ' .. prefix .. '-' .. count .. '\\r\\n\\r\\n' .. body
end

function done(summary)
  local errors = summary.errors
  local failed = errors.status + errors.read + errors.write + errors.timeout + errors.connect
  io.write(string.format('{"requests":%d,"micros":%d,"failed":%d}', summary.requests, summary.duration, failed))
end
`;

/**
 * The load of wrk, with one thread: it takes a fraction of the processor that a load made by Node takes from the
 * servers it measures, and it is what others measure with. It counts in whole seconds.
 */
export function startWrk(): LoadProcess {
  const program = locate('wrk');
  const folder = mkdtempSync(join(tmpdir(), 'onceward-wrk-'));
  const script = join(folder, 'load.lua');
  writeFileSync(script, SCRIPT);
  return {
    async run({ port, path, connections, ms, keys }: LoadTask): Promise<LoadResult> {
      if (keys !== 'new') throw new Error('wrk sends a new key with each request');
      const options = ['-t1', `-c${connections}`, `-d${Math.round(ms / 1_000)}s`, '-s', script];
      const url = `http://127.0.0.1:${port}${path}`;
      const prefix = randomBytes(9).toString('base64url');
      const { stdout } = await run(program, [...options, url, '--', prefix]);
      const result = JSON.parse(stdout.slice(stdout.indexOf('{"requests"'))) as Printed;
      const { requests, micros, failed } = result;
      return { requests, seconds: micros / 1e6, refused: failed, replayed: null };
    },
    stop: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

interface Printed {
  readonly requests: number;
  readonly micros: number;
  readonly failed: number;
}
