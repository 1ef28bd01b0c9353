import type { DoneOperation, FailedOperation, Step, WaitingOperation } from 'onceward/client';
import type { Command } from './upstream.ts';

/** Something that really happened, once. */
export interface Effect extends Command {
  /** Whose token it was done with. */
  readonly by: string;
  readonly key: string;
  readonly at: number;
}

export interface Violation {
  readonly rule: string;
  readonly what: string;
}

/** An operation of the device, as long as anything can still be said about it. */
interface Known {
  readonly lane: string;
  readonly number: number;
  isWaiting: boolean;
  /** It was moved out of its lane, so those behind it went on without it. */
  hasFailed: boolean;
}

/**
 * Checks what really happened against what the device has shown its user, each at the moment when it becomes true:
 *
 * - one effect for each intention, in its user's name
 * - what was reported not done has not happened, and never does
 * - what was reported done has happened, once
 * - of a lane, nothing begins before all that was queued earlier has come to its end
 * - a group that is reported undone has nothing left, one that is reported done nothing missing
 */
export class Judge {
  readonly violations: Violation[] = [];
  readonly effects: Effect[] = [];
  readonly #times = new Map<string, number>();
  /** By intention and step: how often it was done less how often it was undone. */
  readonly #balance = new Map<string, number>();
  /** Keys of which the device has said that they did not happen, with its words. */
  readonly #notDone = new Map<string, string>();
  readonly #operations = new Map<string, Known>();
  readonly #operationOfKey = new Map<string, string>();
  readonly #tell: (text: string) => void;
  readonly #isOrdered: boolean;

  /** `isOrdered`: something sees to it that one tab at a time sends. */
  constructor(tell: (text: string) => void, isOrdered: boolean) {
    this.#tell = tell;
    this.#isOrdered = isOrdered;
  }

  violate(rule: string, what: string): void {
    this.violations.push({ rule, what });
    this.#tell(`VIOLATION ${rule}: ${what}`);
  }

  happenedUnder(key: string): boolean {
    return this.#times.has(key);
  }

  /** Whether the user's wish has come true, and was not taken back. */
  isDone(intention: string, step: number): boolean {
    return (this.#balance.get(`${intention}.${step}`) ?? 0) > 0;
  }

  effect(effect: Effect): void {
    const { intention, step, undo, user, by, key } = effect;
    this.effects.push(effect);
    const name = `${intention}.${step}${undo ? ' undone' : ''}`;
    this.#tell(`EFFECT ${name} by ${by} under ${key}`);
    const times = (this.#times.get(key) ?? 0) + 1;
    this.#times.set(key, times);
    if (times > 1) this.violate('one effect for each key', `${name} happened ${times} times`);
    const balance = (this.#balance.get(`${intention}.${step}`) ?? 0) + (undo ? -1 : 1);
    this.#balance.set(`${intention}.${step}`, balance);
    if (balance > 1) this.violate('one effect for each intention', `${name} happened twice`);
    if (balance < 0) this.violate('only what is done is undone', name);
    const said = this.#notDone.get(key);
    if (said !== undefined) {
      this.violate('what is reported not done does not happen', `${name}: ${said}`);
    }
    if (by !== user) this.violate('nothing is done in the name of another', `${name} by ${by}`);
    if (!undo && this.#isOrdered) this.#checkOrder(key, name);
  }

  #checkOrder(key: string, name: string): void {
    const own = this.#operations.get(this.#operationOfKey.get(key) ?? '');
    if (own === undefined || own.hasFailed) return;
    for (const [id, { lane, number, isWaiting, hasFailed }] of this.#operations) {
      if (lane !== own.lane || number >= own.number || !isWaiting || hasFailed) continue;
      this.violate('a lane keeps its order', `${name} happened while ${id} was waiting`);
    }
  }

  /** An operation is stored as waiting: new, changed, or on its way again. */
  waits(before: WaitingOperation | FailedOperation | null, now: WaitingOperation): void {
    const { id, steps } = now;
    // An owner's lane: the lanes of two do not wait for each other.
    const lane = id.slice(0, id.lastIndexOf('/'));
    const known = this.#operations.get(id);
    if (known === undefined) {
      const number = Number(/\d+/.exec(id.slice(id.lastIndexOf('/')))?.[0]);
      this.#operations.set(id, { lane, number, isWaiting: true, hasFailed: false });
    } else known.isWaiting = true;
    for (const { key } of steps) this.#operationOfKey.set(key, id);
    const [earlier, later] = [before?.steps[0]?.key, steps[0]?.key];
    if (before === null || earlier === later) return;
    if (before.state === 'waiting') this.#reportNotDone(before.steps, `${id} was edited`);
    else if (before.outcome === 'unknown') {
      this.violate('what may have happened keeps its key', `${id} has a new one`);
    }
  }

  isGone(operation: WaitingOperation): void {
    this.#ended(operation.id);
    this.#reportNotDone(operation.steps, `${operation.id} was cancelled`);
  }

  isDoneWith(operation: DoneOperation, isHeldHere: (key: string) => boolean): void {
    this.#ended(operation.id);
    for (const key of operation.keys) {
      if (!isHeldHere(key) || this.#times.get(key) === 1) continue;
      this.violate('what is reported done has happened', `${operation.id} under ${key}`);
    }
  }

  hasFailed(operation: FailedOperation): void {
    const { id, outcome, steps, cursor, reason } = operation;
    this.#ended(id);
    const known = this.#operations.get(id);
    if (known !== undefined) known.hasFailed = true;
    const said = `${id} is ${outcome} (${reason})`;
    switch (outcome) {
      case 'refused':
      case 'too_late':
        this.#reportNotDone(steps, said);
        break;
      case 'undone':
        this.#reportUndone(steps, said);
        break;
      case 'stuck': {
        const undo = steps[cursor]?.undo;
        if (undo) this.#reportKey(undo.key, said);
        break;
      }
      case 'unknown':
    }
  }

  #ended(id: string): void {
    const known = this.#operations.get(id);
    if (known !== undefined) known.isWaiting = false;
  }

  #reportUndone(steps: readonly Step[], said: string): void {
    for (const { key, undo } of steps) {
      if (!this.#times.has(key)) this.#reportKey(key, said);
      else if (undo === null || !this.#times.has(undo.key)) {
        this.violate('what is reported undone is undone', `${said}: ${key} is not`);
      }
    }
  }

  #reportNotDone(steps: readonly Step[], said: string): void {
    for (const { key, undo } of steps) {
      this.#reportKey(key, said);
      if (undo !== null) this.#reportKey(undo.key, said);
    }
  }

  #reportKey(key: string, said: string): void {
    this.#notDone.set(key, said);
    if (this.#times.has(key)) {
      this.violate('what is reported not done did not happen', `${said}, under ${key}`);
    }
  }
}
