import type { OutboxAuth } from 'onceward/client';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';
import { never } from './life.ts';

export interface TokenFaults {
  refreshFails: number;
  hang: number;
  slowestMs: number;
}

/** Sooner than a tab gives up on it, or has lost a lease and won another. */
const SLOWEST_REFRESH_MS = 2_000;

/** Who is signed in on the device, and which tokens the servers accept. */
export class Tokens {
  readonly faults: TokenFaults;
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  /** The current user of the device. */
  user: string;
  #generation = 0;
  #held: string;

  constructor(time: VirtualTime, dice: Dice, user: string, faults: TokenFaults) {
    this.#time = time;
    this.#dice = dice;
    this.faults = faults;
    this.user = user;
    this.#held = this.#mint();
  }

  /** The server accepts none of the tokens that were given out so far. */
  expire(): void {
    this.#generation += 1;
  }

  /** The user answers the sign-in page. */
  signIn(user: string): void {
    this.user = user;
    this.#held = this.#mint();
  }

  /** Whose token it is, if it is still good. */
  userOf(authorization: string): string | null {
    return authorization.endsWith(`.${this.#generation}`) ? ownerOf(authorization) : null;
  }

  /** As one tab has it. `onTwo`: it asks for new credentials while it is being given some. */
  authFor(onTwo: () => void): OutboxAuth {
    const { faults } = this;
    let isRefreshing = false;
    const think = (most: number) => this.#time.sleep(this.#dice.between(1, most));
    return {
      headers: async () => {
        if (this.#dice.chance(faults.hang)) return never();
        await think(faults.slowestMs);
        return { authorization: this.#held };
      },
      refresh: async () => {
        if (isRefreshing) onTwo();
        isRefreshing = true;
        await think(Math.min(faults.slowestMs, SLOWEST_REFRESH_MS));
        isRefreshing = false;
        if (this.#dice.chance(faults.refreshFails)) return false;
        this.#held = this.#mint();
        return true;
      },
    };
  }

  #mint(): string {
    return `Bearer ${this.user}.${this.#generation}`;
  }
}

/** Whose token it is, good or not. */
export function ownerOf(authorization: string): string {
  return /^Bearer (\w+)\./.exec(authorization)?.[1] ?? '';
}
