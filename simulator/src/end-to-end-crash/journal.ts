import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** One effect of the API: a line that survives every kill after it was written. */
export interface Charge {
  /** What the user of the device wanted; an edit has the name of what it takes the place of. */
  readonly name: string;
  readonly undo: boolean;
  readonly key: string;
}

export function writeCharge(path: string, charge: Charge): void {
  appendFileSync(path, `${JSON.stringify(charge)}\n`);
}

export function readCharges(path: string): Charge[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Charge);
}

/** How an operation of the device stands in the end, as the device itself reports it. */
export interface Ending {
  /** Names of its steps: one, or several for a group. */
  readonly names: readonly string[];
  readonly state: 'done' | 'failed' | 'waiting' | 'gone';
  readonly outcome: string | null;
  readonly wasCancelled: boolean;
}

/** Every way in which the endings do not fit what the API has done. */
export function findComplaints(charges: readonly Charge[], endings: readonly Ending[]): string[] {
  const complaints: string[] = [];
  const byKey = countBy(charges, ({ key }) => key);
  for (const [key, count] of byKey) {
    if (count > 1) complaints.push(`${key} happened ${count} times`);
  }
  const done = countBy(charges, ({ name, undo }) => (undo ? '' : name));
  const undone = countBy(charges, ({ name, undo }) => (undo ? name : ''));
  for (const { names, state, outcome, wasCancelled } of endings) {
    const told = `${names[0]} is ${outcome ?? state}`;
    const left = names.map((name) => (done.get(name) ?? 0) - (undone.get(name) ?? 0));
    if (left.some((count) => count > 1 || count < 0)) complaints.push(`${told}: ${left} are left`);
    if (state === 'waiting') complaints.push(`${told} for ever`);
    if (state === 'gone' && !wasCancelled) complaints.push(`${told}, and nobody cancelled it`);
    if (state === 'done' && left.some((count) => count !== 1)) {
      complaints.push(`${told}, and ${left} happened`);
    }
    const isNotDone = state === 'gone' || outcome === 'refused' || outcome === 'undone';
    if (isNotDone && left.some((count) => count !== 0)) {
      complaints.push(`${told}, and ${left} happened`);
    }
  }
  return complaints;
}

function countBy<T>(values: readonly T[], nameOf: (value: T) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) {
    const name = nameOf(value);
    if (name !== '') counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}
