import { getEventListeners } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { realWorld, withDeadline } from './client-world.ts';
import { idempotentFetch, memoryStorage, Outbox } from './index.ts';
import { LedgerClient } from './ledger.ts';

it('nothing listens to the signal of a call that has ended, well or not', async () => {
  const signals: AbortSignal[] = [];
  const never = new AbortController().signal;
  const call = (end: () => Promise<string>) =>
    withDeadline(realWorld, 1_000, never, (signal) => {
      signals.push(signal);
      return end();
    });
  expect(await call(async () => 'answer')).toBe('answer');
  await expect(call(async () => Promise.reject(new Error('refused')))).rejects.toThrow('refused');
  expect(signals.map((signal) => getEventListeners(signal, 'abort').length)).toEqual([0, 0]);
});

it('answers of calls that have ended are collected: of the outbox, the fetch wrapper and the ledger client', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const answers: WeakRef<Response>[] = [];
  const answer = async () => {
    const response = new Response('{}', { status: 201 });
    answers.push(new WeakRef(response));
    return response;
  };
  const outbox = new Outbox({ storage: memoryStorage(), fetch: answer });
  const send = idempotentFetch({ fetch: answer });
  const ledger = new LedgerClient({
    url: 'https://ledger.test',
    headers: () => ({}),
    fetch: answer,
  });
  const stream = { organization: 'o', clientId: 'c' };
  const write = { ...stream, sequence: 1n, idempotencyKey: '', operations: [] };
  for (let i = 0; i < 50; i += 1) {
    const { id } = await outbox.enqueue({ url: '/orders', json: { i } });
    await outbox.whenSettled(id);
    await send('https://api.test/orders', { method: 'POST', body: '{}' });
    await ledger.write(write, false).catch(() => {});
  }
  await outbox.close();
  expect(answers).toHaveLength(150);
  await expect
    .poll(async () => {
      await wait(10);
      collect();
      return answers.filter((kept) => kept.deref() !== undefined).length;
    })
    .toBeLessThan(15);
});
