import type { Operation } from 'onceward/client';
import { findViolations } from './checkers.ts';
import { SimulatedDevice } from './simulated-device.ts';
import { SimulatedServer } from './simulated-server.ts';
import { Dice, VirtualTime } from './virtual-time.ts';
import { Workload } from './workload.ts';

export interface OutboxRun {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly kills: number;
  readonly effects: number;
  readonly events: number;
}

const STORMY_MS = 60_000;
const MOST_EVENTS = 100_000;

/**
 * One seed, one history: a device with one or two tabs, a user, a network and a server. For a minute everything
 * that can go wrong may; then the world heals, and everything must come to its end.
 */
export async function simulateOutbox(seed: number): Promise<OutboxRun> {
  const dice = new Dice(seed);
  const time = new VirtualTime();
  const often = (most: number) => (dice.chance(0.5) ? dice.roll() * most : 0);
  const server = new SimulatedServer(time, dice, {
    lostRequest: often(0.4),
    lostAnswer: often(0.4),
    turnedAway: often(0.8),
    unauthorized: often(0.05),
    slowestEffectMs: dice.pick([5, 500, 8_000]),
  });
  const device = new SimulatedDevice(
    time,
    dice,
    { fetch: (isAlive) => server.fetch(isAlive) },
    {
      writeFails: often(0.1),
      noticeLost: often(0.5),
    },
  );
  const workload = new Workload(device, dice, time);
  workload.plan(dice.between(3, 8));
  device.openTab();
  let kills = 0;
  // Some waits are only ever seen to their end where lives are long.
  const killRate = dice.pick([0.02, 0.4, 0.4]);

  const trouble = () => {
    if (time.now >= STORMY_MS) return;
    const { tabs } = device;
    if (dice.chance(killRate) && tabs.length > 0) {
      dice.pick(tabs).kill();
      kills += 1;
    } else if (tabs.length < 2) device.openTab();
    if (dice.chance(0.15)) device.setOnline(!device.online);
    if (dice.chance(0.05)) device.clock.offsetMs += dice.between(-30_000, 3_600_000);
    if (dice.chance(0.3)) signIn(device);
    time.after(dice.between(1, dice.pick([30, 800, 6_000])), trouble);
  };
  time.after(dice.between(1, 2_000), trouble);

  let events = await time.run(() => time.now >= STORMY_MS, MOST_EVENTS);
  heal(server, device);
  const ends = new Map<string, Operation | null>();
  let over = false;
  const look = async (): Promise<void> => {
    signIn(device);
    over = workload.isQueued && (await collectEnds(device, workload, ends));
    if (!over) time.after(5_000, () => void look());
  };
  time.after(1, () => void look());
  events += await time.run(() => over, MOST_EVENTS);

  const violations = findViolations(workload.intentions, ends, server);
  if (!over && violations.length === 0) violations.push(`the run did not end in ${events} events`);
  for (const tab of device.tabs) tab.kill();
  return { seed, violations, kills, effects: server.effects.length, events };
}

function heal(server: SimulatedServer, device: SimulatedDevice): void {
  Object.assign(server.faults, { lostRequest: 0, lostAnswer: 0, turnedAway: 0, unauthorized: 0 });
  Object.assign(device.faults, { writeFails: 0, noticeLost: 0 });
  device.setOnline(true);
  if (device.tabs.length === 0) device.openTab();
}

/** The user answers the sign-in page, if one is shown. */
function signIn(device: SimulatedDevice): void {
  for (const { outbox } of device.tabs) {
    if (outbox.status.getSnapshot().paused === 'auth') outbox.resume().catch(() => {});
  }
}

/** `true` when nothing waits any more. */
async function collectEnds(
  device: SimulatedDevice,
  workload: Workload,
  ends: Map<string, Operation | null>,
): Promise<boolean> {
  const tab = device.tabs[0];
  if (tab === undefined) return false;
  let waiting = 0;
  for (const { name, id } of workload.intentions) {
    const end = id === null ? null : await tab.outbox.find(id);
    ends.set(name, end);
    ends.set(`${name}.late`, id === null ? null : await tab.outbox.find(`${id}e`));
    if (end?.state === 'waiting') waiting += 1;
  }
  return waiting === 0;
}
