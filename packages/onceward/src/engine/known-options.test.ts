import { expect, it } from 'vitest';
import { idempotentFetch, Outbox } from '../client/index.ts';
import { settleOptions } from '../http/options.ts';
import { createOnceward } from '../index.ts';
import { openEtcdStore } from '../stores/etcd/index.ts';
import { memoryStore } from '../stores/memory/index.ts';
import { openPostgresStore } from '../stores/postgres/index.ts';
import { openRedisStore } from '../stores/redis/index.ts';
import { openSqliteStore } from '../stores/sqlite/index.ts';
import { openWalStore } from '../stores/wal/index.ts';

const code = 'ONCE_INVALID_CONFIG';
const refusal = (wrong: string, right: string) => ({
  code,
  message: expect.stringMatching(new RegExp(`^${wrong} is not an option of .*; ${right} is`)),
});
const effect = { kind: 'external', onLapse: 'in_doubt' } as const;

it('[H18] a misspelt option of a door is refused, and the right one is named', () => {
  const door = { store: memoryStore(), scopeFrom: () => 'ada', effect };
  const settle = (more: object) => () => settleOptions({ ...door, ...more });
  expect(settle({ requiered: true })).toThrow(
    expect.objectContaining(refusal('requiered', 'required')),
  );
  expect(settle({ policy: { keepCommitedMs: 1 } })).toThrow(
    expect.objectContaining(refusal('keepCommitedMs', 'keepCommittedMs')),
  );
});

it('[H18] so is one of the engine, of once and of a store', async () => {
  const store = memoryStore();
  expect(() => createOnceward({ store, swep: false } as never)).toThrow(
    expect.objectContaining(refusal('swep', 'sweep')),
  );
  const engine = createOnceward({ store, sweep: false });
  const once = { scope: 'a', key: 'k', effect, polcy: {} } as never;
  await expect(engine.once(once, async () => 1)).rejects.toMatchObject(refusal('polcy', 'policy'));
  await expect(
    openWalStore({ directory: '/nowhere', segmentByte: 1 } as never),
  ).rejects.toMatchObject(refusal('segmentByte', 'segmentBytes'));
  await expect(openPostgresStore({ pool: {}, timeotMs: 1 } as never)).rejects.toMatchObject(
    refusal('timeotMs', 'timeoutMs'),
  );
  await engine.close();
});

it('[H18] so is one within near, sweep or effect', async () => {
  const store = memoryStore();
  const create = (more: object) => () => createOnceward({ store, ...more });
  expect(create({ near: { maxEntrys: 1 } })).toThrow(
    expect.objectContaining(refusal('maxEntrys', 'maxEntries')),
  );
  expect(create({ sweep: { everyMS: 1 } })).toThrow(
    expect.objectContaining(refusal('everyMS', 'everyMs')),
  );
  const engine = createOnceward({ store, sweep: false });
  const misspelt = { kind: 'downstream', onLaps: 'in_doubt' } as never;
  const once = engine.once({ scope: 'a', key: 'k', effect: misspelt }, async () => 1);
  await expect(once).rejects.toMatchObject({ code, message: expect.stringContaining('onLaps') });
  const door = { store, scopeFrom: () => 'ada', effect: { ...effect, onLaps: 'take_over' } };
  expect(() => settleOptions(door)).toThrow(expect.objectContaining(refusal('onLaps', 'onLapse')));
  await engine.close();
});

it.each([
  ['the memory store', async () => memoryStore({ maxRecordByte: 1 } as never), 'maxRecordByte'],
  ['the sqlite store', () => openSqliteStore({ path: 'x', drver: 'y' } as never), 'drver'],
  ['the redis store', () => openRedisStore({ url: 'redis://x', prefx: 'y' } as never), 'prefx'],
  ['the etcd store', () => openEtcdStore({ endpoints: [], prefx: 'y' } as never), 'prefx'],
])('[H18] so is one of %s, before anything is opened', async (_name, open, wrong) => {
  await expect(open()).rejects.toMatchObject({ code, message: expect.stringContaining(wrong) });
});

it('[H18] so is one of the client', () => {
  const refused = expect.objectContaining({
    code: 'INVALID_INPUT',
    message: expect.stringContaining('replayWindow is not an option'),
  });
  expect(() => new Outbox({ replayWindow: 1 } as never)).toThrow(refused);
  expect(() => idempotentFetch({ replayWindow: 1 } as never)).toThrow(refused);
});
