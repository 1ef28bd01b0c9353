import { OncewardError } from '../../engine/errors.ts';

/**
 * Which data centre is at home to which tenant. A key is decided upon at home alone; the others send it there.
 *
 * A table is never edited: a change is a new version, and data centres with different versions take nothing from each
 * other. To move a tenant, first give it no home (`null`, a version of its own), wait until every data centre has
 * that version and the longest window has passed, then give it the new one: at no time do two act as home.
 */
export interface HomeTable {
  readonly version: number;
  readonly dataCentres: readonly string[];
  /** `null`: on the move, refused everywhere. */
  readonly homes: Readonly<Record<string, string | null>>;
  /** Where tenants live that are not named. `spread`: each somewhere, found from its name by all alike. */
  readonly otherwise: string | 'spread';
}

export function checkHomeTable(table: HomeTable): HomeTable {
  const { version, dataCentres, homes, otherwise } = table;
  if (!Number.isSafeInteger(version) || version < 1) {
    throw invalid(`version is ${version}; it must be a whole number from 1`);
  }
  if (!Array.isArray(dataCentres) || new Set(dataCentres).size !== dataCentres.length) {
    throw invalid('dataCentres must be a list of names, each once');
  }
  if (dataCentres.length === 0) throw invalid('dataCentres is empty; name at least one');
  const named = Object.entries({ ...homes, otherwise });
  for (const [tenant, home] of named) {
    const isKnown = home !== null && dataCentres.includes(home);
    if (isKnown || home === null || (tenant === 'otherwise' && home === 'spread')) continue;
    throw invalid(`${tenant} has its home in ${home}, which is not among dataCentres`);
  }
  return table;
}

/** `null`: nowhere, for now. */
export function homeOf(table: HomeTable, tenant: string): string | null {
  const named = Object.hasOwn(table.homes, tenant) ? table.homes[tenant] : undefined;
  if (named !== undefined) return named;
  return table.otherwise === 'spread' ? spread(table.dataCentres, tenant) : table.otherwise;
}

/** The data centre whose name weighs most with this tenant: one that comes or goes moves only its own share. */
function spread(dataCentres: readonly string[], tenant: string): string {
  let best = dataCentres[0]!;
  let most = -1;
  for (const name of dataCentres) {
    const weight = weigh(`${name}\0${tenant}`);
    if (weight > most) {
      most = weight;
      best = name;
    }
  }
  return best;
}

/** FNV-1a with a final mix: it has to be the same everywhere and for ever, and nothing else. */
function weigh(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

function invalid(message: string): OncewardError {
  return new OncewardError('ONCE_INVALID_CONFIG', `the table of homes is not valid: ${message}`);
}
