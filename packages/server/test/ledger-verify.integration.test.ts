import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAccount, pay } from './ledger-client.ts';
import { RunningProgram, runCommand, startServer, temporaryFolder } from './running-program.ts';

const folder = temporaryFolder();
const env = { ONCEWARD_DATA: folder.path };
let accounts: { from: string; to: string };

/** Every file below the folder, with its bytes and the time of its last change. */
function fingerprint(): Record<string, string> {
  const files: Record<string, string> = {};
  for (const name of readdirSync(folder.path, { recursive: true }) as string[]) {
    const path = join(folder.path, name);
    const { mtimeMs } = statSync(path);
    if (!statSync(path).isFile()) continue;
    const hash = createHash('sha256').update(readFileSync(path)).digest('hex');
    files[name] = `${hash} ${mtimeMs}`;
  }
  return files;
}

beforeAll(async () => {
  expect(await runCommand(['verify'], env)).toMatchObject({ code: 3 });
  const server = await startServer(env);
  accounts = { from: await openAccount(server.url), to: await openAccount(server.url) };
  for (let at = 0; at < 5; at += 1) await pay(server.url, `key-${at}`, accounts);
  const running = await runCommand(['verify'], env);
  expect(running).toMatchObject({ code: 7, stdout: '' });
  expect(running.stderr).toContain('GET /integrity');
  await server.stop();
});

afterAll(() => folder.remove());

describe('verify', () => {
  it('[U3] [S9] walks the chain of a ledger that nobody has open, and says what it found', async () => {
    const { code, stdout, stderr } = await runCommand(['verify', '--json'], env);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: true,
      chain: { ok: true, first: 1, transactions: 7 },
      state: { ok: true, assets: [{ asset: 'USD', accounts: 2, sum: '0' }] },
      log: { ok: true, first: 1, problem: null },
    });
    expect(stderr).toMatch(/^verified \d+ of \d+ blocks$/m);
  });

  it('[L12] leaves every byte as it is, and adopts no settings of its shell', async () => {
    const before = fingerprint();
    const shell = { ...env, LEDGER_IDEMPOTENCY_TTL_HOURS: '0.001' };
    expect(await runCommand(['verify'], shell)).toMatchObject({ code: 0 });
    expect(await runCommand(['ledger-settings'], shell)).toMatchObject({ code: 0 });
    expect(fingerprint()).toEqual(before);
    const server = await startServer(env);
    for (let at = 0; at < 5; at += 1) {
      expect(await pay(server.url, `key-${at}`, accounts)).toMatchObject({ status: 409 });
    }
    await server.stop();
  });

  it('[L12] says what is wrong with the log, which it checks too', async () => {
    const log = join(folder.path, 'ledger', 'log');
    renameSync(log, `${log}.away`);
    const gone = await runCommand(['verify', '--json'], env);
    expect(gone.code).toBe(10);
    expect(JSON.parse(gone.stdout)).toMatchObject({
      ok: false,
      log: { ok: false, problem: expect.stringMatching(/the log is missing/) },
    });
    rmSync(log, { recursive: true, force: true });
    renameSync(`${log}.away`, log);
    expect(await runCommand(['verify'], env)).toMatchObject({ code: 0 });
  });
});

describe('the settings of a ledger', () => {
  it('[L12] stop a server whose environment disagrees, with the command to run', async () => {
    const other = { ...env, LEDGER_IDEMPOTENCY_TTL_HOURS: '2' };
    const program = new RunningProgram(['serve'], { PORT: '0', LEDGER_GRPC_PORT: '0', ...other });
    const { code, stderr } = await program.ended;
    expect(code).toBe(2);
    expect(stderr).toContain('LEDGER_IDEMPOTENCY_TTL_HOURS is 2, the ledger has 1');
    expect(stderr).toContain('onceward ledger-settings --apply');

    const applied = await runCommand(['ledger-settings', '--apply', '--json'], other);
    expect(applied.code).toBe(0);
    expect(JSON.parse(applied.stdout).settings[0]).toEqual({
      name: 'LEDGER_IDEMPOTENCY_TTL_HOURS',
      before: 1,
      set: 2,
      now: 2,
    });
    const server = await startServer(other);
    expect(await pay(server.url, 'key-0', accounts)).toMatchObject({ status: 409 });
    await server.stop();
    expect(await runCommand(['verify'], env)).toMatchObject({ code: 0 });
  });

  it('[L12] change after a kill that came before anything was saved but the log', async () => {
    const young = temporaryFolder();
    const shell = { ...env, ONCEWARD_DATA: young.path, LEDGER_CLIENT_TTL_SECONDS: '60' };
    const server = await startServer({ ONCEWARD_DATA: young.path });
    await openAccount(server.url);
    await server.program.stop('SIGKILL');
    expect(await runCommand(['ledger-settings'], shell)).toMatchObject({ code: 3 });
    const applied = await runCommand(['ledger-settings', '--apply', '--json'], shell);
    expect(applied).toMatchObject({ code: 0 });
    expect(JSON.parse(applied.stdout).settings).toContainEqual({
      name: 'LEDGER_CLIENT_TTL_SECONDS',
      before: 86_400,
      set: 60,
      now: 60,
    });
    young.remove();
  });

  it('[L12] that are misspelt stop a server too', async () => {
    const program = new RunningProgram(['serve'], { ...env, LEDGER_TTL_HOURS: '2' });
    const { code, stderr } = await program.ended;
    expect(code).toBe(2);
    expect(stderr).toContain('did you mean LEDGER_IDEMPOTENCY_TTL_HOURS?');
  });
});
