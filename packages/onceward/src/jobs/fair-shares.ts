/** How many places there are beyond the ordinary ones, for tenants that would get none. */
const GUESTS = 0.25;

/**
 * Places that tenants share. While there is room, any tenant gets one, so that a tenant alone has them all. Beyond
 * that there are a quarter more for guests: a tenant gets one of those if it has none, or fewer than are still free.
 * Each guest takes half of what the one before has left, so there is something for the next, and nothing for the
 * tenant that used up the ordinary ones.
 */
export class FairShares {
  readonly #places: number;
  readonly #most: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  constructor(places: number) {
    this.#places = places;
    this.#most = places + Math.ceil(places * GUESTS);
  }

  get taken(): number {
    return this.#taken;
  }

  mayTake(tenant: string): boolean {
    if (this.#taken < this.#places) return true;
    const free = this.#most - this.#taken;
    const own = this.#held.get(tenant) ?? 0;
    return free > 0 && (own === 0 || own < free);
  }

  take(tenant: string): void {
    this.#taken += 1;
    this.#held.set(tenant, (this.#held.get(tenant) ?? 0) + 1);
  }

  giveBack(tenant: string): void {
    const left = (this.#held.get(tenant) ?? 1) - 1;
    this.#taken -= 1;
    if (left === 0) this.#held.delete(tenant);
    else this.#held.set(tenant, left);
  }
}
