import { describe, expect, it } from 'vitest';
import { manualWorld } from '../../testing/manual-world.ts';
import type { JobsPort, JobView } from '../jobs-port.ts';
import { type Answer, refused, submissionOf } from '../submission.ts';
import { GlobalView } from './global-view.ts';
import { HomeRouter } from './home-router.ts';
import { checkHomeTable, type HomeTable, homeOf } from './home-table.ts';

const table: HomeTable = {
  version: 1,
  dataCentres: ['east', 'north', 'west'],
  homes: { shop: 'west', bank: 'east', nomad: null },
  otherwise: 'spread',
};

function submission(tenant: string) {
  const key = 'host:1:a1b2c3d4e5f60718';
  return submissionOf({ tenant, key, type: 'echo', payload: null });
}

/** A data centre, seen from the others: it answers with its name, or is cut off. */
function dataCentre(name: string) {
  const state = { cut: false, jobs: [] as JobView[], answer: null as Answer | null };
  const answerOr = async <T>(value: T): Promise<T> => {
    if (state.cut) throw new Error('no route');
    return value;
  };
  const port: JobsPort = {
    submit: () =>
      answerOr(
        state.answer ?? { status: 'committed', jobId: name, wasDuplicate: false, keepMs: 1 },
      ),
    find: () => answerOr(null),
    list: () => answerOr({ jobs: state.jobs, complete: true }),
    cancel: () => answerOr('unknown' as const),
  };
  return { state, port };
}

function setUp(tableOf: () => HomeTable = () => table) {
  const [east, north, west] = ['east', 'north', 'west'].map(dataCentre);
  const away = new Map([
    ['north', north!.port],
    ['west', west!.port],
  ]);
  const router = new HomeRouter({ here: 'east', table: tableOf, local: east!.port, away });
  return { router, east: east!, north: north!, west: west! };
}

describe('the home of a key', () => {
  it('[J7] is where its tenant lives: the others send it there', async () => {
    const { router } = setUp();
    expect(await router.submit(submission('bank'))).toMatchObject({ jobId: 'east' });
    expect(await router.submit(submission('shop'))).toMatchObject({ jobId: 'west' });
  });

  it('[J7] is the same for tenants that the table does not name, in every data centre', () => {
    const homes = Array.from({ length: 3_000 }, (_, i) => homeOf(table, `tenant ${i}`));
    for (const name of table.dataCentres) {
      expect(homes.filter((home) => home === name).length).toBeGreaterThan(700);
    }
    const without = { ...table, dataCentres: ['east', 'west'] };
    homes.forEach((home, i) => {
      if (home !== 'north') expect(homeOf(without, `tenant ${i}`)).toBe(home);
    });
  });

  it('[J7] that cannot be reached means that nothing is run, here or there', async () => {
    const { router, west } = setUp();
    west.state.cut = true;
    expect(await router.submit(submission('shop'))).toMatchObject({
      status: 'refused',
      why: 'unavailable',
      retryAfterMs: 2_000,
    });
    west.state.cut = false;
    west.state.answer = refused('unavailable');
    expect(await router.submit(submission('shop'))).toMatchObject({ why: 'unavailable' });
  });

  it('[J7] of a tenant on the move is nowhere', async () => {
    expect(await setUp().router.submit(submission('nomad'))).toMatchObject({ why: 'unavailable' });
  });

  it('[J7] is refused to senders with another version of the table, and to those who err', () => {
    const { router } = setUp();
    expect(router.refuseHome('bank', 1)).toBeNull();
    expect(router.refuseHome('bank', 2)).toMatchObject({ why: 'unavailable' });
    expect(router.refuseHome('shop', 1)).toMatchObject({ why: 'unavailable' });
  });

  it('[J7] is checked when the table is read', () => {
    expect(checkHomeTable(table)).toBe(table);
    expect(() => checkHomeTable({ ...table, version: 0 })).toThrow('version');
    expect(() => checkHomeTable({ ...table, homes: { shop: 'south' } })).toThrow('south');
    expect(() => checkHomeTable({ ...table, otherwise: 'south' })).toThrow('south');
    expect(() => checkHomeTable({ ...table, dataCentres: [] })).toThrow('dataCentres');
  });
});

describe('the global view', () => {
  const job: JobView = {
    jobId: 'a',
    tenant: 'shop',
    type: 'echo',
    state: 'succeeded',
    attempts: 1,
    submittedAt: 1,
    result: null,
    error: null,
    queue: null,
  };

  it('[J7] keeps what it knew of a data centre that is cut off, and is right again a round after', async () => {
    const world = manualWorld();
    const { east, west } = setUp();
    const ports = new Map([
      ['east', east.port],
      ['west', west.port],
    ]);
    const global = new GlobalView({ dataCentres: ports, world, everyMs: 5_000 });
    west.state.jobs = [job];
    global.start();
    await world.advance(1);
    expect(global.view).toMatchObject([{ jobs: [] }, { isCurrent: true, jobs: [{ jobId: 'a' }] }]);

    west.state.cut = true;
    west.state.jobs = [job, { ...job, jobId: 'b' }];
    await world.advance(5_000);
    expect(global.view[1]).toMatchObject({ isCurrent: false, jobs: [{ jobId: 'a' }] });

    west.state.cut = false;
    await world.advance(5_000);
    expect(global.view[1]).toMatchObject({
      isCurrent: true,
      jobs: [{ jobId: 'a' }, { jobId: 'b' }],
    });
    global.close();
  });
});
