import { Dice } from '../outbox/virtual-time.ts';
import {
  type EndToEndPlan,
  type PlannedEvent,
  type PlannedIntention,
  type ProcessName,
  type Rates,
  STORM_MS,
} from './plan.ts';

const MINUTE = 60_000;

/** Those who share the device. */
const USERS = ['ann', 'bob'];

/** What a wall clock may be set back by. Windows have at least this much room at their ends. */
const FURTHEST_BACK_MS = 20_000;

/** Turns a seed into a world. */
export function drawEndToEnd(seed: number): EndToEndPlan {
  const dice = new Dice(seed * 2_654_435_761);
  const windowMs = dice.pick([2 * MINUTE, 10 * MINUTE]);
  const wishes = drawWishes(dice);
  return {
    seed,
    profile: dice.pick(['http', 'http', 'sync', 'stripe'] as const),
    gateways: dice.between(1, 2),
    locks: dice.pick(['web', 'web', 'lease', 'none'] as const),
    tabs: dice.between(1, 2),
    leaseMs: dice.pick([5_000, MINUTE]),
    upstreamTimeoutMs: dice.pick([2_000, 8_000, 20_000]),
    slowestEffectMs: dice.pick([5, 500, 12_000]),
    slowestCredentialsMs: dice.pick([1, 50, 12_000]),
    keepMs: windowMs + 2 * MINUTE,
    windowMs,
    away: drawAway(dice, wishes.intentions, windowMs * 2 + 4 * MINUTE),
    rates: drawRates(dice),
    ...wishes,
  };
}

/** Some leave in the very moment in which something is on its way to the ledger. */
function drawAway(dice: Dice, intentions: readonly PlannedIntention[], ms: number) {
  const write = intentions.find(({ kind, at }) => kind === 'write' && at > 2_000);
  if (write !== undefined && dice.chance(0.2)) return { at: write.at + dice.between(1, 80), ms };
  return dice.chance(0.15) ? { at: dice.between(1_000, STORM_MS), ms } : null;
}

function drawRates(dice: Dice): Rates {
  const often = (most: number) => (dice.chance(0.4) ? dice.roll() * most : 0);
  return {
    lostRequest: often(0.3),
    lostAnswer: often(0.4),
    lateRequest: often(0.2),
    storageFails: often(0.1),
    noticeLost: often(0.5),
    storeRequestLost: often(0.1),
    storeReplyLost: often(0.1),
    turnedAway: often(0.7),
    redirected: often(0.15),
    connectionRefused: often(0.4),
    silentBefore: often(0.15),
    silentAfter: often(0.25),
    resetBefore: often(0.15),
    resetAfter: often(0.25),
    refreshFails: often(0.5),
    credentialsHang: often(0.1),
    atTheDoor: often(0.2),
  };
}

/** On most devices there is one user; on some, two take turns. */
function drawWishes(dice: Dice): Pick<EndToEndPlan, 'intentions' | 'events'> {
  const users = dice.chance(0.3) ? USERS : USERS.slice(0, 1);
  return { intentions: drawIntentions(dice, users), events: drawEvents(dice, users) };
}

function drawIntentions(dice: Dice, users: readonly string[]): PlannedIntention[] {
  const sequenced = dice.chance(0.3);
  return Array.from({ length: dice.between(2, 6) }, (_, i) => {
    const kind = dice.pick(
      sequenced
        ? (['write', 'write', 'plain', 'job'] as const)
        : (['plain', 'plain', 'group', 'job'] as const),
    );
    const later = () => dice.between(0, dice.pick([300, 3_000, 40_000]));
    return {
      name: `op${i}`,
      kind,
      user: dice.pick(users),
      lane: `lane${dice.between(0, 1)}`,
      at: dice.between(0, 20_000),
      steps: kind === 'group' ? dice.between(2, 3) : 1,
      refused: dice.chance(0.2),
      long: dice.chance(0.15),
      unsendable: dice.chance(0.1),
      editAfterMs: kind === 'plain' && dice.chance(0.2) ? later() : null,
      cancelAfterMs: dice.chance(0.15) ? later() : null,
      retries: dice.between(0, 3),
    };
  });
}

function drawEvents(dice: Dice, users: readonly string[]): PlannedEvent[] {
  const events: PlannedEvent[] = [];
  // Some waits are only ever seen to their end where lives are long.
  const count = dice.pick([2, 10, 20]);
  for (let i = 0; i < count; i += 1)
    events.push(drawEvent(dice, users, dice.between(1, STORM_MS - 1)));
  return events.sort((a, b) => a.at - b.at);
}

function drawEvent(dice: Dice, users: readonly string[], at: number): PlannedEvent {
  const ms = dice.between(10, dice.pick([500, 5_000, 20_000]));
  const kills: ProcessName[] = ['tab', 'tab', 'gateway 0', 'gateway 1', 'server', 'writer'];
  const clocks: ProcessName[] = ['tab', 'gateway 0', 'gateway 1', 'server', 'writer'];
  const kind = dice.pick([
    ...(['kill', 'kill', 'kill', 'kill', 'open tab', 'offline', 'store down'] as const),
    ...(['upstream down', 'clock', 'token expires', 'sign in', 'verdicts', 'verdicts'] as const),
    ...(['ledger loses', 'pause'] as const),
  ]);
  switch (kind) {
    case 'kill':
      return { kind, at, who: dice.pick(kills), ms };
    case 'clock':
      return { kind, at, who: dice.pick(clocks), ms: dice.between(-FURTHEST_BACK_MS, MINUTE) };
    case 'sign in':
      return { kind, at, user: dice.pick(users) };
    case 'ledger loses':
      return { kind, at, what: dice.pick(['state', 'history'] as const) };
    case 'offline':
    case 'store down':
    case 'upstream down':
    case 'pause':
      return { kind, at, ms };
    default:
      return { kind, at };
  }
}
