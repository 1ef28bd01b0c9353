import type { Machine } from '../machine.ts';

/**
 * Forgets clients that were silent for longer than their time and entities that have expired. Sorted before
 * anything is removed, so that the order in which they came to be in memory, which differs after a restart, has
 * no say.
 */
export function evict(machine: Machine): void {
  const { rows, lastSeen, expiries, settings, time } = machine;
  for (const name of collect(lastSeen, (seen) => time - seen > settings.client_ttl_ms)) {
    rows.remove(name);
    lastSeen.delete(name);
  }
  for (const name of collect(expiries, (expiresAt) => expiresAt <= time)) {
    rows.remove(name);
    expiries.delete(name);
  }
}

function collect(times: ReadonlyMap<string, number>, isDue: (time: number) => boolean): string[] {
  const due: string[] = [];
  for (const [name, time] of times) if (isDue(time)) due.push(name);
  return due.sort();
}
