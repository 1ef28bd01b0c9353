import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXIT } from '../src/cli/exit-code.ts';
import {
  CREDENTIAL,
  postJson,
  RunningProgram,
  runCommand,
  startServer,
  temporaryFolder,
} from './running-program.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SCOPE = 'demo|POST /demo/v1/orders';

let server: Awaited<ReturnType<typeof startServer>>;
let env: Record<string, string>;
beforeAll(async () => {
  server = await startServer();
  env = { ONCEWARD_URL: server.url, ONCEWARD_DATA: server.data, ...CREDENTIAL };
});
afterAll(() => server.stop());

function order(key: string, query = ''): Promise<Response> {
  const headers = { 'idempotency-key': key };
  return postJson(`${server.url}/demo/v1/orders${query}`, { item: 'w', amount: 1 }, headers);
}

async function json(...args: string[]) {
  const { code, stdout, stderr } = await runCommand([...args, '--json'], env);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

describe('[U3] the command line', () => {
  it('lists records, as a table and as JSON', async () => {
    await order('listed');
    const found = await json('ls', '--limit', '5', '--state', 'committed');
    expect(found.records[0]).toMatchObject({ key: 'listed', scope: SCOPE });
    const { stdout } = await runCommand(['ls'], env);
    expect(stdout).toMatch(/^state +scope +key/);
    expect(stdout).toContain('listed');
  });

  it('shows one record', async () => {
    await order('shown');
    expect(await json('get', SCOPE, 'shown')).toMatchObject({ key: 'shown', state: 'committed' });
    const { stdout } = await runCommand(['get', SCOPE, 'shown'], env);
    expect(stdout).toMatch(/^state +committed$/m);
  });

  it('purges, extends and resolves, and each has its line in the audit trail', async () => {
    await order('purged');
    const reason = ['--reason', 'tried from the command line'];
    expect(await json('extend', SCOPE, 'purged', '--ttl', '60', ...reason)).toMatchObject({
      key: 'purged',
    });
    expect(await json('purge', SCOPE, 'purged', ...reason)).toMatchObject({ purged: true });
    await order('doubtful', '?crash=1');
    expect(await json('resolve', SCOPE, 'doubtful', '--as', 'void', ...reason)).toMatchObject({
      resolved: 'void',
    });
    const trail = readFileSync(join(server.data, 'audit.jsonl'), 'utf8').trim().split('\n');
    const actions = trail.slice(-3).map((line) => JSON.parse(line).action);
    expect(actions).toEqual(['extend', 'purge', 'resolve']);
  });

  it('follows what happens', async () => {
    const tail = new RunningProgram(['tail', '--json', '--count', '2'], env);
    const orders = (async () => {
      for (let tries = 0; tail.child.exitCode === null && tries < 200; tries += 1) {
        await order(`followed-${tries}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    })();
    const { code, stdout } = await tail.ended;
    await orders;
    expect(code).toBe(0);
    const events = stdout.trim().split('\n');
    expect(events).toHaveLength(2);
    expect(JSON.parse(events[0] ?? '')).toMatchObject({ type: expect.any(String) });
  });

  it('says how it is doing', async () => {
    expect(await json('stats')).toMatchObject({ store: { name: 'wal', durability: 'machine' } });
    const { stdout } = await runCommand(['stats'], env);
    expect(stdout).toMatch(/records committed +\d+/);
  });

  it('finds nothing wrong with a server that is well, and says what is with one that is not', async () => {
    const well = await json('doctor');
    expect(well.findings.filter(({ result }: { result: string }) => result === 'bad')).toEqual([]);
    const away = { ...env, ONCEWARD_URL: 'http://127.0.0.1:9' };
    const { code, stdout } = await runCommand(['doctor'], away);
    expect(code).toBe(EXIT.unwell.code);
    expect(stdout).toMatch(/bad +server/);
  });

  it('prints every setting and where it came from, secrets masked', async () => {
    const folder = temporaryFolder();
    const file = join(folder.path, 'settings.json');
    writeFileSync(file, JSON.stringify({ IDEMPOTENCY_MODE: 'observe' }));
    const { settings } = await json('config', '--config', file, '--port', '1234');
    const find = (name: string) => settings.find((entry: { name: string }) => entry.name === name);
    expect(find('PORT')).toMatchObject({ value: 1234, source: 'flag --port' });
    expect(find('IDEMPOTENCY_MODE')).toMatchObject({ value: 'observe', source: `file ${file}` });
    expect(find('ONCEWARD_API_SECRET')).toMatchObject({ value: '********' });
    expect(find('HOST')).toMatchObject({ source: 'default' });
    folder.remove();
  });

  it('[U3] ends quietly when its reader has seen enough', async () => {
    const program = new RunningProgram(['--help']);
    program.child.stdout?.destroy();
    const { code, stderr } = await program.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it('helps', async () => {
    const { code, stdout } = await runCommand(['--help']);
    expect(code).toBe(0);
    for (const word of ['serve', 'gateway', 'ls', 'resolve', 'doctor', 'Exit codes']) {
      expect(stdout).toContain(word);
    }
    const one = await runCommand(['resolve', '--help']);
    expect(one.stdout).toMatch(/--as <verdict>/);
  });

  for (const [what, exit, args, changes] of [
    ['an unknown command', 'usage', ['fly'], {}],
    ['an unknown flag', 'usage', ['ls', '--loud'], {}],
    ['a missing reason', 'usage', ['purge', 's', 'k'], {}],
    ['a bad setting', 'usage', ['ls', '--url', 'nowhere'], {}],
    ['a record that is not there', 'absent', ['get', 's', 'k'], {}],
    ['a wrong secret', 'refused', ['ls'], { ONCEWARD_API_SECRET: 'sk_wrong' }],
    ['a state that does not exist', 'usage', ['ls', '--state', 'lost'], {}],
    ['a count that is none', 'usage', ['ls', '--limit', 'abc'], {}],
    [
      'a verdict that does not exist',
      'usage',
      ['resolve', 's', 'k', '--as', 'x', '--reason', 'r'],
      {},
    ],
    ['no server', 'unreachable', ['stats'], { ONCEWARD_URL: 'http://127.0.0.1:9' }],
  ] as const) {
    it(`ends with ${EXIT[exit].code} at ${what}, in one line and without a stack`, async () => {
      const { code, stdout, stderr } = await runCommand([...args], { ...env, ...changes });
      expect({ code, stdout }).toEqual({ code: EXIT[exit].code, stdout: '' });
      expect(stderr).toMatch(/^onceward: \S/);
      expect(stderr).not.toMatch(/^ +at /m);
    });
  }

  it('has its exit codes in the documents', () => {
    const page = readFileSync(join(ROOT, 'docs/reference/cli.md'), 'utf8');
    const rows = [...page.matchAll(/^\| (\d+) \| (.*) \|$/gm)].map(([, code, meaning]) => ({
      code: Number(code),
      meaning,
    }));
    expect(rows).toEqual(Object.values(EXIT));
  });
});
