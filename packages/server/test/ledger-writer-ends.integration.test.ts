import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { memoryStorage, type OutboxStorage } from 'onceward/client';
import { LedgerClient, LedgerWriter } from 'onceward/client/ledger';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, postJson, startServer, temporaryFolder } from './running-program.ts';

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

let server: Awaited<ReturnType<typeof startServer>>;
let organization: string;

beforeAll(async () => {
  server = await startServer();
  const url = `${server.url}/onceward.ledger.v1.AdminService/CreateOrganization`;
  const made = await postJson(url, { name: 'Acme' }, ADMIN);
  ({ organization } = (await made.json()) as { organization: string });
});
afterAll(() => server.stop());

/** Runs a writer in a process of its own until it ends or is killed, and returns the lines that it printed. */
async function runProcess(directory: string, mode: string, ...keys: string[]): Promise<string[]> {
  const program = ['--import', at('../../../scripts/typescript.mjs'), at('ledger-writer-main.ts')];
  const args = [...program, server.url, organization, directory, mode, ...keys];
  const child = spawn(process.execPath, ['--conditions=onceward-source', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  await once(child, 'close');
  return output.trim().split('\n');
}

const client = () => new LedgerClient({ url: server.url, headers: () => ADMIN });

async function remove(key: string): Promise<void> {
  const stream = { organization, clientId: randomUUID() };
  const writer = await LedgerWriter.open({ client: client(), storage: memoryStorage(), stream });
  expect(await writer.write([{ deleteEntity: { key } }])).toMatchObject({ ok: true });
}

describe('[C13] the end of a write', () => {
  it('is told again by the next process if the process was killed in onResult', async () => {
    const { path, remove: removeFolder } = temporaryFolder();
    const [first] = await runProcess(path, 'kill', randomUUID());
    expect(first).toMatch(/^told tx_/);
    expect(await runProcess(path, 'tell')).toEqual([first, 'last 1']);
    expect(await runProcess(path, 'tell')).toEqual(['']);
    removeFolder();
  });

  it('that was a refusal is told again, and the write is not sent again', async () => {
    const { path, remove: removeFolder } = temporaryFolder();
    const key = randomUUID();
    await runProcess(path, 'tell', key);
    expect(await runProcess(path, 'kill', key)).toEqual(['told KEY_EXISTS']);
    // Sent now, it would be committed, and its caller may have written it again.
    await remove(key);
    expect(await runProcess(path, 'tell')).toContain('told KEY_EXISTS');
    expect(await client().verifiedRead({ organization }, key)).toBeNull();
    removeFolder();
  });

  it('is told again by the next process if onResult threw, and the writer goes on', async () => {
    const { path, remove: removeFolder } = temporaryFolder();
    const lines = await runProcess(path, 'throw', randomUUID(), randomUUID());
    const heard = (said: string, among: string[]) => among.filter((line) => line.startsWith(said));
    const told = heard('told tx_', lines);
    expect(told).toHaveLength(2);
    expect(heard('answered tx_', lines)).toHaveLength(2);
    expect(heard('unhandled of the application', lines)).toHaveLength(2);
    expect(heard('told', await runProcess(path, 'tell'))).toEqual(told);
    expect(await runProcess(path, 'tell')).toEqual(['']);
    removeFolder();
  });

  it('is unknown if the storage could not note it: the write is sent again later', async () => {
    const memory = memoryStorage();
    const key = randomUUID();
    const full: OutboxStorage = {
      ...memory,
      async swap(changes) {
        if (changes.some(({ next }) => next === null)) throw new Error('disk full');
        return memory.swap(changes);
      },
    };
    const stream = { organization, clientId: randomUUID() };
    const write = [{ deleteEntity: { key, condition: { mustExist: true } } }];
    const writer = await LedgerWriter.open({ client: client(), storage: full, stream });
    expect(await writer.write(write)).toMatchObject({
      ok: false,
      code: 'KEY_NOT_FOUND',
      happened: 'unknown',
      message: expect.stringContaining('sent again'),
    });
    writer.close();
  });
});
