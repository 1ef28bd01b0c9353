import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fuzz } from './fuzz.ts';
import { CREDENTIAL, RunningProgram, startServer, temporaryFolder } from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

const SEED = 20_261;

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer({ ONCEWARD_LOG_LEVEL: 'error' });
});
afterAll(() => server.stop());

describe('[H12] broken requests on the raw socket', () => {
  it('get a 4xx or a closed door, and the server stays well', async () => {
    const { findings, statuses } = await fuzz({
      url: server.url,
      requests: 16_000,
      seed: SEED,
      connections: 48,
      refusalsAreOurs: true,
    });
    expect(findings).toEqual([]);
    // Unless all sorts of answers came back, too little of the server was reached.
    for (const status of [200, 201, 400, 401, 404])
      expect(statuses.get(status)).toBeGreaterThan(50);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
    expect(server.program.child.exitCode).toBeNull();
    expect(server.program.stderr).not.toContain('"msg":"failed"');
  }, 600_000);

  it('do the gateway no more harm', async () => {
    const upstream = new UpstreamServer();
    const folder = temporaryFolder();
    const program = new RunningProgram(['gateway', '--upstream', await upstream.listen()], {
      PORT: '0',
      ONCEWARD_ADMIN_PORT: '0',
      ONCEWARD_DATA: folder.path,
      ONCEWARD_LOG_LEVEL: 'error',
      ...CREDENTIAL,
    });
    const url = await program.ready();
    const { findings } = await fuzz({
      url,
      requests: 4_000,
      seed: SEED + 1,
      connections: 48,
      refusalsAreOurs: false,
    });
    expect(findings).toEqual([]);
    expect((await fetch(`${url}/still-there`)).status).toBe(201);
    expect(program.stderr).not.toContain('"msg":"failed"');
    await program.stop();
    await upstream.close();
    folder.remove();
  }, 600_000);
});
