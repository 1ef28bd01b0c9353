import type { Operation } from 'onceward/client';
import type { Effect, SimulatedServer } from './simulated-server.ts';
import type { Intention } from './workload.ts';

/** Every way in which the end of a run breaks a promise, as sentences. */
export function findViolations(
  intentions: readonly Intention[],
  ends: ReadonlyMap<string, Operation | null>,
  server: SimulatedServer,
): string[] {
  const violations: string[] = [];
  if (server.mismatches > 0) violations.push(`${server.mismatches} keys were sent with two bodies`);
  const counts = new Map<string, number>();
  for (const { name } of server.effects) counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const [name, count] of counts) {
    if (count > 1) violations.push(`${name} happened ${count} times`);
  }
  for (const intention of intentions) {
    const end = ends.get(intention.name) ?? null;
    const happened = (name: string) => counts.has(name);
    const found = intention.group
      ? checkGroup(intention, end, server.effects)
      : checkPlain(intention, end, ends.get(`${intention.name}.late`) ?? null, happened);
    violations.push(...found.map((what) => `${intention.name}: ${what}`));
  }
  const settled = intentions.filter(({ name }) => !isUnknown(ends.get(name) ?? null));
  violations.push(...checkOrder(settled, server.effects));
  return violations;
}

function checkPlain(
  intention: Intention,
  end: Operation | null,
  late: Operation | null,
  happened: (name: string) => boolean,
): string[] {
  const original = happened(intention.name);
  const edited = happened(`${intention.name}.edited`);
  if (original && edited) return ['both the original and its edit happened'];
  const editKept = edited || late !== null || end === null || isEdited(end, intention);
  if (intention.edit?.result === 'settling' && !editKept) return ['its edit is lost'];
  if (end === null) {
    if (intention.cancel === null) return ['it was acknowledged and is lost'];
    return original || edited ? ['it was cancelled and happened'] : [];
  }
  switch (end.state) {
    case 'waiting':
      return [`it still waits: ${end.problem}`];
    case 'done':
      return original || edited ? [] : ['it is called done and did not happen'];
    case 'failed':
      if (end.outcome === 'unknown') return [];
      return original || edited ? [`it is called ${end.outcome} and happened`] : [];
  }
}

/** The edit took the place of the original and then went its own way. */
function isEdited(end: Operation, intention: Intention): boolean {
  return end.state !== 'done' && end.steps[0]?.key !== intention.key;
}

function checkGroup(
  intention: Intention,
  end: Operation | null,
  effects: readonly Effect[],
): string[] {
  const own = new Set(intention.steps.flatMap((step) => [step.name, step.undo]));
  const history = effects.map(({ name }) => name).filter((name) => own.has(name));
  const done = history.filter((name) => !name.endsWith('.undo'));
  const back = history.filter((name) => name.endsWith('.undo'));
  const forwardInOrder = done.every((name, i) => name === intention.steps[i]?.name);
  if (!forwardInOrder) return [`steps out of order: ${history.join(' ')}`];
  const expectedBack = done.map((name) => `${name}.undo`).reverse();
  const undone = back.length === done.length && back.every((name, i) => name === expectedBack[i]);

  if (end === null) {
    if (intention.cancel === null) return ['it was acknowledged and is lost'];
    return done.length === 0 ? [] : [`it is gone but left ${history.join(' ')}`];
  }
  if (end.state === 'waiting') return [`it still waits: ${end.problem}`];
  if (end.state === 'done') {
    const complete = done.length === intention.steps.length && back.length === 0;
    return complete ? [] : [`it is called done: ${history.join(' ')}`];
  }
  if (end.outcome === 'unknown' || end.outcome === 'stuck') {
    return [`it ended halfway: ${end.outcome}, ${history.join(' ')}`];
  }
  return undone ? [] : [`it is called ${end.outcome}: ${history.join(' ')}`];
}

/** Given up while it may still have been running at the server: nobody can say when it happened, if it did. */
function isUnknown(end: Operation | null): boolean {
  return end?.state === 'failed' && end.outcome === 'unknown';
}

/** Of two operations of a lane, the one that was acknowledged before the other was begun happens first. */
function checkOrder(intentions: readonly Intention[], effects: readonly Effect[]): string[] {
  const firstEffect = new Map<string, number>();
  effects.forEach(({ name }, at) => {
    const [operation = ''] = name.split('.');
    if (!firstEffect.has(operation)) firstEffect.set(operation, at);
  });
  const violations: string[] = [];
  for (const [lane, members] of groupByLane(intentions)) {
    const ordered = members.toSorted((a, b) => ((a.id ?? '') < (b.id ?? '') ? -1 : 1));
    let last = -1;
    for (const { name } of ordered) {
      const at = firstEffect.get(name);
      if (at === undefined) continue;
      if (at < last) violations.push(`${name} happened out of order in ${lane}`);
      last = at;
    }
  }
  return violations;
}

function groupByLane(intentions: readonly Intention[]): Map<string, Intention[]> {
  const lanes = new Map<string, Intention[]>();
  for (const intention of intentions) {
    lanes.set(intention.lane, [...(lanes.get(intention.lane) ?? []), intention]);
  }
  return lanes;
}
