import { type DurationMs, type EpochMs, SECOND } from '../../engine/units.ts';
import type { Timer, World } from '../../engine/world.ts';
import type { JobsPort, JobView } from '../jobs-port.ts';

export interface GlobalViewOptions {
  /** Every data centre, this one included. */
  readonly dataCentres: ReadonlyMap<string, JobsPort>;
  readonly world: World;
  readonly everyMs?: DurationMs;
  /** Jobs remembered of each. */
  readonly limit?: number;
}

/** What one data centre holds, as it last answered. */
export interface DataCentreView {
  readonly dataCentre: string;
  /** `null`: it never answered. */
  readonly asOf: EpochMs | null;
  /** False: it did not answer when it was asked last, and `jobs` is what it held before. */
  readonly isCurrent: boolean;
  readonly jobs: readonly JobView[];
}

/**
 * Which jobs exist where. Every data centre is asked again and again and what it says replaces what was known, so that
 * the view is right one round after the network is. It decides nothing: homes do.
 */
export class GlobalView {
  readonly #options: GlobalViewOptions;
  readonly #known = new Map<string, DataCentreView>();
  #timer: Timer | null = null;
  #closed = false;

  constructor(options: GlobalViewOptions) {
    this.#options = options;
    for (const dataCentre of options.dataCentres.keys()) {
      this.#known.set(dataCentre, { dataCentre, asOf: null, isCurrent: false, jobs: [] });
    }
  }

  get view(): readonly DataCentreView[] {
    return [...this.#known.values()];
  }

  start(): void {
    void this.refresh().then(() => {
      if (this.#closed) return;
      const every = this.#options.everyMs ?? 5 * SECOND;
      this.#timer = this.#options.world.startTimer(every, () => this.start());
    });
  }

  /** Asks all of them once. Those that do not answer keep what was known of them. */
  async refresh(): Promise<void> {
    const { dataCentres } = this.#options;
    await Promise.all([...dataCentres].map(([name, port]) => this.#ask(name, port)));
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  async #ask(dataCentre: string, port: JobsPort): Promise<void> {
    const { world, limit = 1_000 } = this.#options;
    const asOf = world.now();
    try {
      const { jobs } = await port.list({ tenant: null, limit });
      this.#known.set(dataCentre, { dataCentre, asOf, isCurrent: true, jobs });
    } catch {
      const known = this.#known.get(dataCentre);
      if (known !== undefined) this.#known.set(dataCentre, { ...known, isCurrent: false });
    }
  }
}
