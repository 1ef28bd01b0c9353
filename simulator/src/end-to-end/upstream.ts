import { Readable } from 'node:stream';
import {
  type UpstreamAnswer,
  UpstreamFailure,
  type UpstreamRequest,
} from '../../../packages/server/src/gateway/upstream.ts';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import type { Judge } from './judge.ts';
import type { Rates } from './plan.ts';
import type { Tokens } from './tokens.ts';

/** What a request asks for, as the user of the device writes it into the body. */
export interface Command {
  /** What the user wants; an edit has the name of what it takes the place of. */
  readonly intention: string;
  readonly step: number;
  readonly undo: boolean;
  readonly user: string;
  readonly refuse: boolean;
  readonly long: boolean;
}

export type UpstreamFaults = {
  -readonly [K in
    | 'turnedAway'
    | 'redirected'
    | 'connectionRefused'
    | 'silentBefore'
    | 'silentAfter'
    | 'resetBefore'
    | 'resetAfter']: Rates[K];
} & { down: boolean; slowestEffectMs: number };

/** Longer than what is kept of an answer here. */
export const LONGEST_KEPT = 512;

/** The API behind the gateway. It knows nothing of keys: whatever reaches it happens, as often as it does. */
export class SimulatedUpstream {
  readonly faults: UpstreamFaults;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  readonly #tokens: Tokens;
  readonly #judge: Judge;
  /** Requests that may still act, by key. */
  readonly #busy = new Map<string, number>();

  constructor(time: VirtualTime, dice: Dice, tokens: Tokens, judge: Judge, faults: UpstreamFaults) {
    this.#time = time;
    this.#dice = dice;
    this.#tokens = tokens;
    this.#judge = judge;
    this.faults = faults;
  }

  isBusyWith(key: string): boolean {
    return (this.#busy.get(key) ?? 0) > 0;
  }

  async send(request: UpstreamRequest): Promise<UpstreamAnswer> {
    const key = headerOf(request.headers, 'idempotency-key');
    this.#busy.set(key, (this.#busy.get(key) ?? 0) + 1);
    const answering = this.#serve(request, key).finally(() => {
      this.#busy.set(key, (this.#busy.get(key) ?? 1) - 1);
    });
    const silence = this.#time.sleep(request.silenceMs).then(() => 'silent' as const);
    const first = await Promise.race([answering, silence]);
    if (first === 'silent') throw new UpstreamFailure('timeout', null);
    return first;
  }

  async #serve(request: UpstreamRequest, key: string): Promise<UpstreamAnswer> {
    const { faults } = this;
    const dice = this.#dice;
    await this.#time.sleep(dice.between(1, 10));
    if (faults.down || dice.chance(faults.connectionRefused)) {
      throw new UpstreamFailure('refused', null);
    }
    if (dice.chance(faults.resetBefore)) throw new UpstreamFailure('reset', null);
    if (dice.chance(faults.silentBefore)) return this.#silence(request);
    const user = this.#tokens.userOf(headerOf(request.headers, 'authorization'));
    if (user === null) return answer(401, '');
    if (dice.chance(faults.redirected)) return answer(302, '', ['location', '/login']);
    if (dice.chance(faults.turnedAway)) {
      const patience = dice.chance(0.5) ? ['retry-after', '2'] : [];
      return answer(dice.pick([429, 503, 500]), 'not now', patience);
    }
    const command = JSON.parse(Buffer.from(request.body as Uint8Array).toString()) as Command;
    await this.#time.sleep(dice.between(0, faults.slowestEffectMs));
    if (command.refuse) return answer(422, '{"error":"no"}');
    this.#judge.effect({ ...command, by: user, key, at: this.#time.now });
    if (dice.chance(faults.resetAfter)) throw new UpstreamFailure('reset', null);
    if (dice.chance(faults.silentAfter)) return this.#silence(request);
    return answer(201, command.long ? 'x'.repeat(LONGEST_KEPT + 1) : '{"ok":true}');
  }

  /** Until the gateway has given up; then there is nothing left that could act. */
  async #silence({ silenceMs }: UpstreamRequest): Promise<never> {
    await this.#time.sleep(silenceMs + 1);
    throw new UpstreamFailure('timeout', null);
  }
}

function answer(status: number, text: string, more: readonly string[] = []): UpstreamAnswer {
  const body = Buffer.from(text);
  const headers = ['content-type', 'application/json', 'content-length', `${body.length}`, ...more];
  return { status, headers, body: Readable.from(body.length === 0 ? [] : [body]) };
}

export function headerOf(list: readonly string[], name: string): string {
  const at = list.findIndex((other, i) => i % 2 === 0 && other.toLowerCase() === name);
  return at === -1 ? '' : (list[at + 1] ?? '');
}
