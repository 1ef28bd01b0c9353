import { MutationObserver, QueryClient } from '@tanstack/query-core';
import axios, { type InternalAxiosRequestConfig } from 'axios';
import ky from 'ky';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { idempotentFetch, mintUuid } from '../../src/client/index.ts';
import { type OrdersServer, startOrdersServer } from './orders-server.ts';

let server: OrdersServer;

beforeEach(async () => {
  server = await startOrdersServer();
  server.behave({ loseAnswers: 2 });
});
afterEach(() => server.close());

/** The answer was lost twice, so there were three requests, and one effect. */
function expectOneEffect(item: string): void {
  expect(server.requests().get(item)).toBe(3);
  expect(server.effects().get(item)).toBe(1);
}

describe('with other libraries, the way the guide says', () => {
  it('[C3] ky over the fetch wrapper', async () => {
    const send = idempotentFetch({ retry: { baseMs: 10 } });
    const api = ky.create({ fetch: send, retry: 0, timeout: false });
    const answer = await api.post(`${server.url}/orders`, { json: { item: 'ky' } }).json();
    expect(answer).toMatchObject({ item: 'ky' });
    expectOneEffect('ky');
  });

  it('[C3] axios with an interceptor, and a retry of the same config', async () => {
    const api = axios.create({ baseURL: server.url, proxy: false });
    api.interceptors.request.use((config) => {
      if (!config.headers.has('Idempotency-Key')) {
        config.headers.set('Idempotency-Key', mintUuid());
      }
      return config;
    });
    api.interceptors.response.use(undefined, (error: { config: InternalAxiosRequestConfig }) =>
      api.request(error.config),
    );
    const answer = await api.post('/orders', { item: 'axios' });
    expect(answer.headers['idempotency-replayed']).toBe('true');
    expectOneEffect('axios');
  });

  it('[C3] a TanStack mutation whose variables hold the key', async () => {
    const mutation = new MutationObserver(new QueryClient(), {
      retry: 3,
      retryDelay: 10,
      mutationFn: async ({ key, item }: { key: string; item: string }) => {
        const headers = { 'content-type': 'application/json', 'idempotency-key': key };
        const body = JSON.stringify({ item });
        const answer = await fetch(`${server.url}/orders`, { method: 'POST', headers, body });
        return answer.headers.get('idempotency-replayed');
      },
    });
    expect(await mutation.mutate({ key: mintUuid(), item: 'tanstack' })).toBe('true');
    expectOneEffect('tanstack');
  });
});
