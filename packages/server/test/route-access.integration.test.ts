import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPlainly } from './plain-request.ts';
import { ADMIN, postJson, startServer } from './running-program.ts';

/** Who may use a route. */
type Access =
  /** Everybody. */
  | 'open'
  /** Every credential. */
  | 'any'
  /** Those who change: admins and clients. */
  | 'use'
  /** Those who read everything: admins and read_only. */
  | 'look'
  | 'admin'
  /** As `any` and `use`, and callers on this machine without a credential. */
  | 'any, local'
  | 'use, local'
  /** Nobody but callers on this machine, whatever they bring. */
  | 'local';

/** Every route that the server documents. One that is not here fails the test. */
const ROUTES: Readonly<Record<string, Access>> = {
  'get /healthz': 'open',
  'get /readyz': 'open',
  'get /metrics': 'open',
  'post /v1/operations/reserve': 'use',
  'post /v1/operations/commit': 'use',
  'post /v1/operations/reject': 'use',
  'post /v1/operations/renew': 'use',
  'post /v1/operations/release': 'use',
  'get /v1/operations/{scope}/{key}': 'any',
  'get /admin/stats': 'look',
  'get /admin/idempotency/recent': 'look',
  'get /admin/idempotency/{scope}/{key}': 'look',
  'delete /admin/idempotency/{scope}/{key}': 'admin',
  'post /admin/idempotency/{scope}/{key}/extend': 'admin',
  'post /admin/idempotency/{scope}/{key}/resolve': 'admin',
  'post /admin/idempotency/resolve': 'admin',
  'get /admin/audit': 'look',
  'get /admin/events': 'look',
  'get /credentials': 'admin',
  'post /credentials': 'admin',
  'delete /credentials/{api_key}': 'admin',
  'post /jobs': 'use, local',
  'get /jobs': 'any, local',
  'get /jobs/{id}': 'any, local',
  'post /jobs/{id}/cancel': 'use, local',
  'post /account': 'use',
  'get /account/{id}': 'any',
  'get /account/{id}/ledger': 'any',
  'get /account/{id}/proof': 'any',
  'post /transaction': 'use',
  'get /transaction/{id}': 'any',
  'get /transaction/{id}/proof': 'any',
  'get /idempotency/{key}': 'any',
  'get /recovery': 'any',
  'get /integrity': 'any',
  'post /demo/v1/orders': 'local',
  'get /demo/v1/effects': 'local',
};

const HIDDEN = ['get /openapi.json', 'get /docs', 'get /docs/'] as const;

type Role = 'admin' | 'client' | 'read_only';
const MAY: Readonly<Record<string, readonly Role[]>> = {
  any: ['admin', 'client', 'read_only'],
  use: ['admin', 'client'],
  look: ['admin', 'read_only'],
  admin: ['admin'],
};

function isLetIn(access: Access, role: Role | null, isLocal: boolean): boolean {
  if (access === 'open') return true;
  if (access === 'local') return isLocal;
  const [kind = '', local] = access.split(', ');
  return role === null ? local !== undefined && isLocal : MAY[kind]?.includes(role) === true;
}

const FAR = { 'x-forwarded-for': '192.0.2.1' };
const CROSS_SITE = { origin: 'http://evil.example', 'sec-fetch-site': 'cross-site' };

let server: Awaited<ReturnType<typeof startServer>>;
const bearers: Record<Role, Record<string, string>> = { admin: ADMIN, client: {}, read_only: {} };
let documented: string[];

beforeAll(async () => {
  server = await startServer();
  for (const role of ['client', 'read_only'] as const) {
    const made = await postJson(`${server.url}/credentials`, { role }, ADMIN);
    const { api_key, api_secret } = (await made.json()) as Record<string, string>;
    bearers[role] = { 'x-api-key': api_key ?? '', 'x-api-secret': api_secret ?? '' };
  }
  const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, unknown>>;
  };
  documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  );
});
afterAll(() => server.stop());

async function statusOf(route: string, headers: Record<string, string>): Promise<number> {
  const [method = '', path = ''] = route.split(' ');
  const filled = path.replace(/\{\w+\}/g, 'x');
  const json = method === 'post' ? { json: {} } : {};
  const asked = { method: method.toUpperCase(), headers, ...json };
  return (await askPlainly(server.url + filled, asked)).status;
}

describe('who is let in where', () => {
  it('every documented route has its row', () => {
    expect(documented.toSorted()).toEqual(Object.keys(ROUTES).toSorted());
  });

  const callers: readonly [string, Role | null, boolean, Record<string, string>][] = [
    ['a caller on this machine', null, true, {}],
    ['a caller behind a proxy', null, false, FAR],
    ['a page of another site', null, false, CROSS_SITE],
    ['a client', 'client', true, {}],
    ['a client behind a proxy', 'client', false, FAR],
    ['one who may look', 'read_only', true, {}],
    ['an admin', 'admin', true, {}],
    ['an admin behind a proxy', 'admin', false, FAR],
  ];
  it.each(callers)('%s', async (_who, role, isLocal, headers) => {
    for (const [route, access] of Object.entries(ROUTES)) {
      const bearer = role === null ? {} : bearers[role];
      const status = await statusOf(route, { ...bearer, ...headers });
      const verdict = status === 401 || status === 403 ? 'refused' : 'let in';
      const expected = isLetIn(access, role, isLocal) ? 'let in' : 'refused';
      expect(`${route} ${status} ${verdict}`).toBe(`${route} ${status} ${expected}`);
      expect(status).toBeLessThan(500);
    }
  });

  it('nobody, under the name of a stranger', async () => {
    for (const route of [...Object.keys(ROUTES), ...HIDDEN]) {
      for (const bearer of [{}, bearers.client, bearers.admin]) {
        const status = await statusOf(route, { host: 'evil.example', ...bearer });
        expect(`${route} ${status}`).toBe(`${route} 421`);
      }
    }
  });
});
