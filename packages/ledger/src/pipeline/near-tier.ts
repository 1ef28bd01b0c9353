import type { World } from 'onceward';

/** What is needed to give a sequenced write its first answer again. */
export interface KeptAnswer {
  readonly hash: string;
  readonly sequence: bigint;
  readonly height: number;
  readonly position: number;
}

/**
 * Answers of recent writes by client and key. Bounded and short-lived: whatever it has forgotten, the state
 * still knows.
 */
export class NearTier {
  readonly #answers = new Map<string, KeptAnswer & { readonly until: number }>();
  readonly #world: World;
  readonly #limit: number;
  readonly #ttlMs: number;

  constructor(world: World, limit: number, ttlMs: number) {
    this.#world = world;
    this.#limit = limit;
    this.#ttlMs = ttlMs;
  }

  get size(): number {
    return this.#answers.size;
  }

  find(client: string, key: string): KeptAnswer | undefined {
    const name = nameOf(client, key);
    const answer = this.#answers.get(name);
    if (answer === undefined || answer.until > this.#world.elapsed()) return answer;
    this.#answers.delete(name);
    return undefined;
  }

  keep(client: string, key: string, answer: KeptAnswer): void {
    if (this.#limit === 0) return;
    if (this.#answers.size >= this.#limit) {
      this.#answers.delete(this.#answers.keys().next().value as string);
    }
    const until = this.#world.elapsed() + this.#ttlMs;
    this.#answers.set(nameOf(client, key), { ...answer, until });
  }
}

/** Keys of sequenced writes are hexadecimal, so the first blank parts the two. */
function nameOf(client: string, key: string): string {
  return `${key} ${client}`;
}
