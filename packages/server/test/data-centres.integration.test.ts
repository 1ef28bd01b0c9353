import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../../scripts/services/index.ts';
import { type FaultProxy, startFaultProxy } from '../../onceward/src/testing/fault-proxy.ts';
import { getJson, newKey, type ShownJob, submitJob, until } from './job-client.ts';
import { startServer, temporaryFolder } from './running-program.ts';

const NAMES = ['east', 'north', 'west'] as const;
type Name = (typeof NAMES)[number];
type Server = Awaited<ReturnType<typeof startServer>>;

interface GlobalAnswer {
  readonly data_centres: readonly {
    readonly name: string;
    readonly current: boolean;
    readonly jobs: readonly ShownJob[];
  }[];
}

const ECHO = { type: 'echo', payload: { n: 1 } };

/** Three data centres, each a process with a store of its own, and a network between them that can be cut. */
describe('three data centres', () => {
  const folder = temporaryFolder();
  const servers = new Map<Name, Server>();
  /** From whom, to whom. */
  const wires = new Map<string, FaultProxy>();

  beforeAll(async () => {
    const ports = new Map<Name, number>();
    for (const name of NAMES) ports.set(name, await freePort());
    for (const from of NAMES) {
      for (const to of NAMES) wires.set(`${from}-${to}`, await startFaultProxy(ports.get(to)!));
    }
    await Promise.all(
      NAMES.map(async (name) => {
        servers.set(name, await startIn(name, ports.get(name)!, 1));
      }),
    );
  });
  afterAll(async () => {
    await Promise.all([...servers.values()].map((server) => server.stop()));
    await Promise.all([...wires.values()].map((wire) => wire.close()));
    folder.remove();
  });

  function startIn(name: Name, port: number, version: number): Promise<Server> {
    const homes = join(folder.path, `homes-${name}-${version}.json`);
    const managers = NAMES.map((to) => [
      to,
      [`http://127.0.0.1:${wires.get(`${name}-${to}`)!.port}`],
    ]);
    writeFileSync(
      homes,
      JSON.stringify({
        version,
        data_centres: Object.fromEntries(managers),
        homes: { shop: 'west', bank: 'east' },
        otherwise: 'spread',
      }),
    );
    return startServer({
      PORT: String(port),
      // The port after it, which would be the default, may be one of the others'.
      LEDGER_GRPC_PORT: '0',
      ONCEWARD_DATA: join(folder.path, name),
      ONCEWARD_DATA_CENTRE: name,
      ONCEWARD_HOMES: homes,
      ONCEWARD_CLUSTER_SECRET: 'a-secret-of-the-tests',
    });
  }

  const urlOf = (name: Name) => servers.get(name)!.url;
  const submit = (name: Name, tenant: string, key: string) =>
    submitJob(urlOf(name), key, ECHO, { 'x-tenant': tenant });

  /** Cuts one data centre off from the others, both ways. */
  function setCut(name: Name, isCut: boolean): void {
    for (const [wire, proxy] of wires) {
      const [from, to] = wire.split('-');
      if (from === to || (from !== name && to !== name)) continue;
      proxy.refuse(isCut);
      if (isCut) proxy.reset();
    }
  }

  async function globalJobs(seenFrom: Name, tenant: string): Promise<GlobalAnswer['data_centres']> {
    const headers = { 'x-tenant': tenant };
    const { body } = await getJson<GlobalAnswer>(`${urlOf(seenFrom)}/jobs/global`, headers);
    return body.data_centres;
  }

  it('[J7] make one job of a key that is submitted everywhere at once, at its home', async () => {
    const key = newKey();
    const acks = await Promise.all(
      NAMES.flatMap((name) => Array.from({ length: 50 }, () => submit(name, 'shop', key))),
    );
    expect(new Set(acks.map(({ body }) => body.job_id)).size).toBe(1);
    expect(acks.filter(({ body }) => body.was_duplicate === false)).toHaveLength(1);
    const id = acks[0]!.body.job_id;
    for (const name of NAMES) {
      const found = await getJson<ShownJob>(`${urlOf(name)}/jobs/${id}`, { 'x-tenant': 'shop' });
      expect(found).toMatchObject({ status: 200, body: { job_id: id } });
    }
  });

  it('[J7] refuse with 503 rather than run twice while the home is cut off, and agree when it is back', async () => {
    const before = newKey();
    const known = await submit('west', 'shop', before);
    setCut('west', true);

    const key = newKey();
    for (const name of ['east', 'north'] as const) {
      const refused = await submit(name, 'shop', key);
      expect(refused).toMatchObject({ status: 503, body: { retry: 'same_key' } });
      expect(Number(refused.retryAfter)).toBeGreaterThanOrEqual(1);
    }
    // The other way round too: what is cut off cannot decide for others, but still does for its own.
    expect((await submit('west', 'bank', newKey())).status).toBe(503);
    const atHome = await submit('west', 'shop', key);
    expect(atHome).toMatchObject({ status: 202, body: { was_duplicate: false } });
    expect((await submit('east', 'bank', newKey())).status).toBe(202);
    const stale = await until(
      () => globalJobs('east', 'shop'),
      (view) => view.some(({ name, current }) => name === 'west' && !current),
    );
    expect(jobIds(stale, 'west')).not.toContain(atHome.body.job_id);

    setCut('west', false);
    for (const name of NAMES) {
      const after = await until(
        () => submit(name, 'shop', key),
        ({ status }) => status === 202,
      );
      expect(after.body).toMatchObject({ job_id: atHome.body.job_id, was_duplicate: true });
      expect((await submit(name, 'shop', before)).body.job_id).toBe(known.body.job_id);
    }
  });

  it('[J7] come to the same view of which jobs exist where', async () => {
    const ack = await submit('north', 'shop', newKey());
    const id = String(ack.body.job_id);
    const views = await Promise.all(
      NAMES.map((name) =>
        until(
          () => globalJobs(name, 'shop'),
          (view) => view.every(({ current }) => current) && jobIds(view, 'west').includes(id),
        ),
      ),
    );
    for (const view of views) {
      expect(jobIds(view, 'west').sort()).toEqual(jobIds(views[0]!, 'west').sort());
      expect(jobIds(view, 'east')).not.toContain(id);
      expect(jobIds(view, 'north')).not.toContain(id);
    }
  });

  it('[J7] take nothing from one that has another version of the table of homes', async () => {
    const port = Number(new URL(urlOf('north')).port);
    await servers.get('north')!.stop();
    servers.set('north', await startIn('north', port, 2));
    const refused = await submit('north', 'shop', newKey());
    expect(refused.status).toBe(503);
    expect(refused.body.detail).toContain('version');
  });
});

function jobIds(view: GlobalAnswer['data_centres'], name: string): string[] {
  return (view.find((one) => one.name === name)?.jobs ?? []).map((job) => job.job_id);
}
