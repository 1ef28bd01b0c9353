import { existsSync } from 'node:fs';
import { type InspectedStore, openToInspect, type StoreFinding } from '../compose.ts';
import type { Settings } from '../config/settings.ts';

export interface Finding {
  readonly check: string;
  /** `warn` should be checked; `bad` must be fixed. */
  readonly result: 'ok' | 'warn' | 'bad';
  readonly detail: string;
}

type Durability = InspectedStore['traits']['durability'];

/** Long enough for a server that is far away, short enough for a person at a terminal. */
const TIMEOUT_MS = 5_000;

const PROMISES: Readonly<Record<Durability, string>> = {
  none: 'best effort: a crash may forget acknowledged claims',
  process: 'at most once while the machine keeps its power: a power cut may forget the last claims',
  machine: 'at most once: acknowledged claims survive a crash and a power cut',
  replicated: 'at most once, also when a machine is lost',
};

const REPLICATE =
  'records are lost with the machine; postgres with two synchronous standbys, or etcd, keeps them';

/** What lies above a store whose settings are as good as they get. */
const BEYOND: Readonly<Record<string, string>> = {
  memory: 'wal keeps records through a crash and a power cut',
  wal: `one process only: sqlite serves several; ${REPLICATE}`,
  sqlite: REPLICATE,
  redis: `a failover can lose acknowledged claims whatever is set; ${REPLICATE}`,
};

/** What a store of this durability may promise. */
export function promiseOf(durability: string): string {
  return PROMISES[durability as Durability] ?? durability;
}

/** What the store may promise as it is set up, why, and what the next level takes. */
export async function checkStore(
  settings: Settings,
  lookAt: string | undefined,
): Promise<Finding[]> {
  const address =
    lookAt ?? (settings.store === 'wal' || settings.store === 'memory' ? null : settings.storeUrl);
  if (address === null || address === undefined) {
    const durability = settings.store === 'memory' ? 'none' : 'machine';
    return explain(settings.store, durability, []);
  }
  if (address.startsWith('sqlite:') && !existsSync(address.slice('sqlite:'.length))) {
    return [{ check: 'store', result: 'warn', detail: 'the file is not here; a store makes it' }];
  }
  let store: InspectedStore;
  try {
    store = await openToInspect(address, TIMEOUT_MS);
  } catch (error) {
    return [{ check: 'store', result: 'bad', detail: (error as Error).message }];
  }
  await store.close();
  return explain(store.traits.name, store.traits.durability, store.findings);
}

function explain(
  name: string,
  durability: Durability,
  findings: readonly StoreFinding[],
): Finding[] {
  const result = durability === 'none' ? 'warn' : 'ok';
  const limit = findings.find(({ limits }) => limits);
  const next =
    limit === undefined ? BEYOND[name] : `${limit.setting} ${limit.value}: ${limit.says}`;
  return [
    { check: 'store', result, detail: `${name}, ${promiseOf(durability)}` },
    ...findings.map(({ setting, value, limits, says }): Finding => {
      const detail = `${value}: ${says}`;
      return { check: `store ${setting}`, result: limits ? 'warn' : 'ok', detail };
    }),
    { check: 'next level', result: 'ok', detail: next ?? 'there is none above this one' },
  ];
}
