import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../random.ts';
import { malformed, oversizes, upgrades } from './odd-visits.ts';
import { type Operation, plainly } from './operation.ts';
import { untilQuiet } from './quiet.ts';
import { ask } from './raw-client.ts';
import { drips, expectsLeave, halfCloses, stalls, unread } from './slow-visits.ts';
import type { Target } from './target.ts';
import { Told } from './told.ts';
import {
  type Draw,
  duplicates,
  leaves,
  PATIENCE_MS,
  pipelines,
  retries,
  type Scene,
  stays,
  type Visit,
} from './visit.ts';
import { PROBE_MS, sendWitnesses } from './witnesses.ts';

/** How a round ends for the program: it goes on, it is asked to stop in the middle, or it is killed there. */
export type Ending = 'goes on' | 'drain' | 'kill';

export interface RoundOptions {
  readonly seed: number;
  readonly round: number;
  readonly ending: Ending;
  /** Only this one of its visits, to see which of them it was. */
  readonly visit: number | null;
  /** Names that no earlier round has used. */
  name(): string;
}

export interface RoundReport {
  readonly round: number;
  readonly ending: Ending;
  readonly complaints: readonly string[];
  /** What the clients did, by number. */
  readonly visits: readonly string[];
  readonly probesMs: readonly number[];
  readonly rssBytes: number;
}

/** When all visits have begun. */
const AMID_MS = 40;
const SOCKETS_EVERY = 10;

const KINDS: readonly [
  (draw: Draw, trap: number) => Visit,
  ...((draw: Draw, trap: number) => Visit)[],
] = [
  stays,
  leaves,
  leaves,
  leaves,
  pipelines,
  pipelines,
  duplicates,
  retries,
  drips,
  stalls,
  unread,
  halfCloses,
  expectsLeave,
  upgrades,
  oversizes,
  malformed,
  malformed,
];

/** One round: visits at the same time, then everything that must hold once they have gone. */
export class Round {
  readonly #target: Target;
  readonly #options: RoundOptions;
  readonly #told = new Told();
  readonly #probes: number[] = [];
  readonly #visits: { readonly visit: Visit; readonly startMs: number }[];
  readonly #killAfterMs: number;
  #stopping = false;

  constructor(target: Target, options: RoundOptions) {
    this.#target = target;
    this.#options = options;
    const random = new Random(options.seed * 1_000_003 + options.round);
    this.#killAfterMs = 10 + random.below(120);
    const count = 4 + random.below(9);
    this.#visits = Array.from({ length: count }, () => {
      const own = new Random(random.below(2 ** 32));
      return {
        visit: random.pick(KINDS)(this.#draw(own), target.trapPort),
        startMs: own.below(30),
      };
    });
  }

  async play(): Promise<RoundReport> {
    const { round, ending } = this.#options;
    await this.#target.mark();
    await this.#traffic();
    const quiet = this.#target.isAlive() ? await this.#afterwards() : null;
    if (quiet === null) this.#told.complain('the process is gone');
    for (const fault of this.#target.faultsInLog()) this.#told.complain(fault);
    return {
      round,
      ending,
      complaints: this.#told.complaints,
      visits: this.#visits.map(({ visit }) => visit.about),
      probesMs: this.#probes,
      rssBytes: quiet ?? 0,
    };
  }

  #draw(random: Random): Draw {
    const { name } = this.#options;
    return {
      random,
      host: new URL(this.#target.url).host,
      key: () => this.#target.keyed(random, name()),
      plain: () => this.#target.plain(random, name()),
      maxBytes: this.#target.maxBytes,
    };
  }

  async #traffic(): Promise<void> {
    const { ending, visit: only } = this.#options;
    let end = () => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    const { url } = this.#target;
    const host = new URL(url).host;
    const scene: Scene = { url, host, told: this.#told, stopping: () => this.#stopping, over };
    const chosen = this.#visits.filter((_, index) => only === null || index === only);
    const all = chosen.map(async ({ visit, startMs }) => {
      await sleep(startMs);
      await visit.go(scene);
    });
    if (ending === 'goes on') {
      await sleep(AMID_MS);
      await this.#probe('keyed', 'while others are rough');
    } else {
      all.push(this.#stop(scene, ending));
      await all.at(-1);
    }
    end();
    await Promise.all(all);
  }

  /** Stops the program amid the traffic, and starts it on the same data. */
  async #stop(scene: Scene, ending: 'drain' | 'kill'): Promise<void> {
    if (ending === 'kill') {
      await sleep(this.#killAfterMs);
      this.#stopping = true;
      await this.#target.kill();
    } else {
      const heard = await sendWitnesses(this.#target, scene, this.#options.name);
      this.#stopping = true;
      for (const fault of await this.#target.drain()) this.#told.complain(fault);
      await heard();
    }
    for (const fault of this.#target.faultsInLog()) this.#told.complain(fault);
    await this.#target.start().catch((error: unknown) => {
      this.#told.complain(`it does not start again on the same data: ${error}`);
    });
  }

  /** Everything that must hold now. Gives the memory that the program takes, if it is still there. */
  async #afterwards(): Promise<number | null> {
    const { round, ending, visit } = this.#options;
    const serves = await this.#probe('keyed', 'afterwards');
    await this.#probe('plain', 'afterwards');
    const withSockets = round % SOCKETS_EVERY === 0 || visit !== null;
    const { left, rssBytes } = await untilQuiet(this.#target, withSockets);
    for (const what of left) this.#told.complain(`after all have left, ${what}`);
    if (!this.#target.isAlive()) return null;
    // What kept keyed traffic from being served need not be reported again by each of the retries.
    if (serves && left.length === 0) await this.#retryAll(ending === 'goes on');
    this.#told.judge();
    for (const what of await this.#target.judge(this.#told)) this.#told.complain(what);
    return rssBytes;
  }

  /** Whether a fresh request is answered. */
  async #probe(kind: 'keyed' | 'plain', when: string): Promise<boolean> {
    const random = new Random(2);
    const name = this.#options.name();
    const operation = kind === 'keyed' ? this.#probing(name) : this.#target.plain(random, name);
    this.#told.asked(operation);
    const { url } = this.#target;
    const { answer, ms } = await ask(url, plainly(operation, new URL(url).host), PROBE_MS);
    this.#probes.push(ms);
    if (answer !== null) this.#told.heard(operation, answer);
    if (answer === null) {
      this.#told.complain(`a fresh ${kind} request got no answer in ${PROBE_MS} ms ${when}`);
    } else if (answer.status >= 400) {
      this.#told.complain(`a fresh ${kind} request got ${answer.status} ${when}`);
    }
    return answer !== null;
  }

  /** A keyed request that nothing is wrong with. */
  #probing(name: string): Operation {
    const { target: witness, ...rest } = this.#target.witness(name);
    return { ...rest, target: witness.replace(/(delay\w*=)\d+/, '$10') };
  }

  /** Every key is sent once more: what was done is replayed, what was not is done now. */
  async #retryAll(strict: boolean): Promise<void> {
    const { url } = this.#target;
    const host = new URL(url).host;
    const waiting = [...this.#told.keyed];
    const worker = async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const { answer } = await ask(url, plainly(next, host), PATIENCE_MS);
        if (answer === null) {
          this.#told.complain(`the retry of ${next.name} (${next.target}) was not answered`);
          continue;
        }
        this.#told.heard(next, answer);
        if (strict && next.ends.length > 0 && !next.ends.includes(answer.status)) {
          const body = answer.body.toString().slice(0, 200);
          const { name, target } = next;
          this.#told.complain(`the retry of ${name} (${target}) got ${answer.status}: ${body}`);
        }
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
  }
}
