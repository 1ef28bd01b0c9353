import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, startServer } from './running-program.ts';

interface Operation {
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly { name: string; in: string; required?: boolean }[];
  readonly requestBody?: { content: Record<string, { schema: Record<string, unknown> }> };
  readonly responses: Record<string, unknown>;
}

let server: Awaited<ReturnType<typeof startServer>>;
let document: { openapi: string; paths: Record<string, Record<string, Operation>> };
beforeAll(async () => {
  server = await startServer();
  document = await (await fetch(`${server.url}/openapi.json`)).json();
});
afterAll(() => server.stop());

describe('[U4] the OpenAPI document', () => {
  it('describes every path of the API', () => {
    expect(document.openapi).toBe('3.1.0');
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining([
        '/demo/v1/orders',
        '/demo/v1/effects',
        '/v1/operations/reserve',
        '/v1/operations/commit',
        '/v1/operations/reject',
        '/v1/operations/renew',
        '/v1/operations/release',
        '/v1/operations/{scope}/{key}',
        '/admin/idempotency/recent',
        '/admin/idempotency/{scope}/{key}',
        '/admin/idempotency/{scope}/{key}/extend',
        '/admin/idempotency/{scope}/{key}/resolve',
        '/admin/audit',
        '/admin/events',
        '/credentials',
        '/healthz',
        '/readyz',
        '/metrics',
      ]),
    );
  });

  it('has a summary, a tag and the parameters of its path for each operation', () => {
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        expect({ path, method, ...operation }).toMatchObject({
          summary: expect.stringMatching(/\w/),
          tags: [expect.any(String)],
        });
        const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
        const inPath = (operation.parameters ?? []).filter((entry) => entry.in === 'path');
        expect(inPath.map(({ name }) => name).sort()).toEqual(named.sort());
      }
    }
  });

  it('says what a body must hold, as the server checks it', async () => {
    const { schema } = document.paths['/v1/operations/reserve']?.post?.requestBody?.content[
      'application/json'
    ] ?? { schema: {} };
    expect(schema).toMatchObject({
      type: 'object',
      required: ['scope', 'key', 'fingerprint'],
      additionalProperties: false,
    });
    const response = await fetch(`${server.url}/v1/operations/reserve`, {
      method: 'POST',
      headers: { ...ADMIN, 'content-type': 'application/json' },
      body: '{"scope":"s"}',
    });
    const { errors } = (await response.json()) as { errors: { field: string }[] };
    expect(errors.map(({ field }) => field)).toEqual(['key', 'fingerprint']);
  });

  it('marks nothing of a body as read-only: a client would leave it out', () => {
    const bodies = Object.values(document.paths).flatMap((operations) =>
      Object.values(operations).map(({ requestBody }) => requestBody),
    );
    const transaction = document.paths['/transaction']?.post?.requestBody;
    expect(JSON.stringify(transaction)).toContain('"journal_entries"');
    expect(JSON.stringify(bodies)).not.toContain('readOnly');
  });

  it('can be browsed, with nothing fetched from elsewhere', async () => {
    const moved = await fetch(`${server.url}/docs`, { redirect: 'manual' });
    expect(moved.headers.get('location')).toBe('/docs/');
    const folder = fileURLToPath(new URL('../assets/docs/', import.meta.url));
    for (const name of readdirSync(folder)) {
      const response = await fetch(`${server.url}/docs/${name}`);
      expect(response.status).toBe(200);
      expect(await response.text()).toBe(readFileSync(folder + name, 'utf8'));
      expect(readFileSync(folder + name, 'utf8')).not.toMatch(
        /(src|href|import|url\()[^\n]*https?:/,
      );
    }
    const page = await (await fetch(`${server.url}/docs/`)).text();
    expect(page).toContain('docs.js');
  });
});
