import type { OutboxAuth } from 'onceward/client';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';

/** Who is signed in on the device, and which tokens the servers accept. */
export class Tokens {
  readonly #time: VirtualTime;
  readonly #dice: Dice;
  refreshFails = 0;
  /** Whoever uses the device now. */
  user: string;
  #generation = 0;
  #held: string;

  constructor(time: VirtualTime, dice: Dice, user: string) {
    this.#time = time;
    this.#dice = dice;
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

  get auth(): OutboxAuth {
    return {
      headers: () => ({ authorization: this.#held }),
      refresh: async () => {
        await this.#time.sleep(this.#dice.between(1, 50));
        if (this.#dice.chance(this.refreshFails)) return false;
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
