import { setTimeout as sleep } from 'node:timers/promises';
import { runClient, type Submitted } from './clients.ts';
import { type Fleet, type FleetStore, startFleet } from './fleet.ts';
import type { Victim } from './victim.ts';
import { type Start, startWorker } from './worker.ts';

export interface CrashRun {
  readonly store: FleetStore;
  readonly kills: number;
  readonly clients: number;
  readonly random: () => number;
  readonly onKill?: (count: number, victim: string) => void;
}

export interface CrashReport {
  readonly kills: Readonly<Record<string, number>>;
  readonly acknowledged: number;
  readonly starts: number;
  readonly states: Readonly<Record<string, number>>;
  readonly complaints: readonly string[];
}

/** Kills gates, managers and the store under load, and then asks whether every promise was kept. */
export async function runCrashes(run: CrashRun): Promise<CrashReport> {
  const { random } = run;
  const worker = await startWorker(() => random() * 300);
  const fleet = await startFleet(run.store, worker.url);
  try {
    let isOver = false;
    const clients = Array.from({ length: run.clients }, (_, i) =>
      runClient(`client${i}`, fleet.gates, random, () => isOver),
    );
    const kills = await killAtRandom(fleet, run);
    isOver = true;
    const submitted = (await Promise.all(clients)).flat();
    const states = await awaitEnds(fleet, submitted);
    return judge(submitted, states, worker.starts, kills);
  } finally {
    await fleet.dispose();
    await worker.close();
  }
}

/** Two may be dead at once, not more: on a slow machine none would be left to be killed. */
const GONE_AT_ONCE = 2;

/** The dead rise at once, while the next one dies: now and then two are dead together. */
async function killAtRandom(fleet: Fleet, run: CrashRun): Promise<Record<string, number>> {
  const { random } = run;
  const kills: Record<string, number> = {};
  const rising = new Map<Victim, Promise<void>>();
  const failures: unknown[] = [];
  for (let count = 1; count <= run.kills && failures.length === 0; count += 1) {
    while (rising.size >= GONE_AT_ONCE) await Promise.race(rising.values());
    await sleep(300 + random() * 1_500);
    const alive = fleet.victims.filter((victim) => !rising.has(victim));
    const victim = alive[Math.floor(random() * alive.length)]!;
    await victim.kill();
    const kind = victim.name.split(' ')[0] ?? '';
    kills[kind] = (kills[kind] ?? 0) + 1;
    run.onKill?.(count, victim.name);
    const risen = victim.start().then(
      () => {
        rising.delete(victim);
      },
      (error: unknown) => {
        rising.delete(victim);
        failures.push(error);
      },
    );
    rising.set(victim, risen);
  }
  await Promise.all(rising.values());
  if (failures.length > 0) throw failures[0];
  return kills;
}

const END_LIMIT_MS = 120_000;
const OPEN = new Set(['queued', 'running', 'unreachable']);

/** What has become of every acknowledged job, once none is open any more. */
async function awaitEnds(
  fleet: Fleet,
  submitted: readonly Submitted[],
): Promise<ReadonlyMap<string, string>> {
  const states = new Map<string, string>();
  const limit = performance.now() + END_LIMIT_MS;
  let open = submitted.flatMap(({ jobIds }) => [...jobIds]);
  while (open.length > 0 && performance.now() < limit) {
    for (const id of open) states.set(id, await stateOf(fleet.gates[0]!.url, id));
    open = open.filter((id) => OPEN.has(states.get(id) ?? ''));
    if (open.length > 0) await sleep(500);
  }
  return states;
}

async function stateOf(gate: string, jobId: string): Promise<string> {
  try {
    const response = await fetch(`${gate}/jobs/${jobId}`, { signal: AbortSignal.timeout(10_000) });
    if (response.status === 404) return 'lost';
    if (!response.ok) return 'unreachable';
    return ((await response.json()) as { state: string }).state;
  } catch {
    return 'unreachable';
  }
}

function judge(
  submitted: readonly Submitted[],
  states: ReadonlyMap<string, string>,
  starts: readonly Start[],
  kills: Readonly<Record<string, number>>,
): CrashReport {
  const complaints: string[] = [];
  const startsOf = new Map<string, Start[]>();
  for (const start of starts) {
    startsOf.set(start.jobId, [...(startsOf.get(start.jobId) ?? []), start]);
  }
  const counted: Record<string, number> = {};
  for (const { key, type, jobIds, oddities } of submitted) {
    for (const oddity of oddities) complaints.push(`${key} was answered ${oddity}`);
    if (jobIds.size > 1) complaints.push(`${key} became ${jobIds.size} jobs`);
    for (const id of jobIds) {
      const state = states.get(id) ?? 'unknown';
      counted[`${type} ${state}`] = (counted[`${type} ${state}`] ?? 0) + 1;
      complaints.push(...wrongs(id, type, state, startsOf.get(id) ?? []));
    }
  }
  // A job that runs unreported is one of a submission that was never acknowledged.
  const acknowledged = submitted.filter(({ jobIds }) => jobIds.size > 0).length;
  if (startsOf.size > submitted.length) {
    complaints.push(`${startsOf.size} jobs were started for ${submitted.length} keys`);
  }
  return { kills, acknowledged, starts: starts.length, states: counted, complaints };
}

function wrongs(
  id: string,
  type: Submitted['type'],
  state: string,
  starts: readonly Start[],
): string[] {
  const wrong: string[] = [];
  const isEnded = state === 'succeeded' || (type === 'once' && state === 'in_doubt');
  if (!isEnded) wrong.push(`job ${id} (${type}) was acknowledged and is ${state}`);
  if (state === 'succeeded' && starts.length === 0) wrong.push(`job ${id} never started`);
  if (type === 'once' && starts.length > 1) {
    wrong.push(`job ${id} may run once and was started ${starts.length} times`);
  }
  if (new Set(starts.map(({ key }) => key)).size > 1) wrong.push(`job ${id} changed its key`);
  if (starts.some(({ fence }, i) => i > 0 && fence <= starts[i - 1]!.fence)) {
    wrong.push(`job ${id} was started again under a fence that had not risen`);
  }
  return wrong;
}
