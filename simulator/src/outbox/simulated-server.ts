import type { Dice, VirtualTime } from './virtual-time.ts';

export interface Faults {
  /** Probabilities per request. */
  lostRequest: number;
  lostAnswer: number;
  turnedAway: number;
  unauthorized: number;
  /** How long an effect may take, at most. */
  slowestEffectMs: number;
}

/** What a request asks for, as the workload writes it into the body. */
export interface Command {
  readonly name: string;
  readonly lane: string;
  readonly refuse: boolean;
}

export interface Effect {
  readonly name: string;
  readonly lane: string;
  readonly key: string;
}

interface KeyRecord {
  readonly body: string;
  state: 'running' | 'settled';
  status: number;
}

/** A server that keeps its side of the bargain: one effect per key, refusals and replies kept for ever. */
export class SimulatedServer {
  readonly effects: Effect[] = [];
  /** The same key with another body: the client never does that. */
  mismatches = 0;
  readonly #records = new Map<string, KeyRecord>();
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  readonly faults: Faults;

  constructor(time: VirtualTime, dice: Dice, faults: Faults) {
    this.#time = time;
    this.#dice = dice;
    this.faults = faults;
  }

  /** One request over a network that may lose it, or its answer. The server never sees an abort. */
  fetch(isAlive: () => boolean): typeof fetch {
    return async (_input, init) => {
      const dead = new Promise<never>(() => {});
      const { signal, body } = init ?? {};
      const key = new Headers(init?.headers).get('idempotency-key') ?? '';
      const aborted = new Promise<never>((_, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      aborted.catch(() => {});
      const answer = this.#roundTrip(key, String(body));
      answer.catch(() => {});
      const result = await Promise.race([answer, aborted]).then(
        (value) => () => value,
        (error) => () => {
          throw error;
        },
      );
      return isAlive() ? result() : dead;
    };
  }

  async #roundTrip(key: string, body: string): Promise<Response> {
    const dice = this.#dice;
    await this.#time.sleep(dice.between(1, 40));
    if (dice.chance(this.faults.lostRequest)) return this.#lost();
    const answer = await this.#handle(key, body);
    await this.#time.sleep(dice.between(1, 40));
    return dice.chance(this.faults.lostAnswer) ? this.#lost() : answer;
  }

  /** The connection breaks at once, or nothing is ever heard again. */
  #lost(): Promise<never> {
    return this.#dice.chance(0.5)
      ? Promise.reject(new TypeError('fetch failed'))
      : new Promise(() => {});
  }

  async #handle(key: string, body: string): Promise<Response> {
    const dice = this.#dice;
    if (dice.chance(this.faults.unauthorized)) return reply(401, {});
    if (dice.chance(this.faults.turnedAway)) {
      return reply(dice.pick([429, 500, 503]), dice.chance(0.5) ? { 'retry-after': '3' } : {});
    }
    const known = this.#records.get(key);
    if (known !== undefined && known.body !== body) {
      this.mismatches += 1;
      return reply(422, {});
    }
    if (known?.state === 'running') return reply(409, { 'retry-after': '1' });
    if (known !== undefined) return reply(known.status, { 'idempotency-replayed': 'true' });

    const record: KeyRecord = { body, state: 'running', status: 0 };
    this.#records.set(key, record);
    await this.#time.sleep(dice.between(0, this.faults.slowestEffectMs));
    const command = JSON.parse(body) as Command;
    if (!command.refuse) this.effects.push({ name: command.name, lane: command.lane, key });
    record.state = 'settled';
    record.status = command.refuse ? 422 : 201;
    return reply(record.status, { 'idempotency-replayed': 'false' });
  }
}

/** Only what the client reads of a response; real ones bring macrotasks of their own into the schedule. */
function reply(status: number, headers: Record<string, string>): Response {
  const response = { status, headers: new Headers(headers), text: async () => '' };
  return response as unknown as Response;
}
