import type { CancelResult, EditResult } from 'onceward/client';
import type { SimulatedDevice, Tab } from './simulated-device.ts';
import type { Command } from './simulated-server.ts';
import type { Dice, VirtualTime } from './virtual-time.ts';

/** What the user of the device wanted, and the answers they got. The checkers compare the end with it. */
export interface Intention {
  readonly name: string;
  readonly lane: string;
  readonly group: boolean;
  /** Names of the effects of each step and its undo. */
  readonly steps: readonly { readonly name: string; readonly undo: string }[];
  readonly key: string;
  readonly refused: boolean;
  /** Known once an enqueue was acknowledged. */
  id: string | null;
  edit: { readonly name: string; result: EditResult | 'unheard' } | null;
  cancel: CancelResult | 'unheard' | null;
  /** The order in which the device acknowledged, within the lane. */
  order: number;
}

/** A user who wants things done, tries again after every crash, edits some and cancels some. */
export class Workload {
  readonly intentions: Intention[] = [];
  readonly #device: SimulatedDevice;
  readonly #dice: Dice;
  readonly #time: VirtualTime;
  #acknowledged = 0;

  constructor(device: SimulatedDevice, dice: Dice, time: VirtualTime) {
    this.#device = device;
    this.#dice = dice;
    this.#time = time;
  }

  plan(count: number): void {
    for (let i = 0; i < count; i += 1) {
      const group = this.#dice.chance(0.3);
      const name = `op${i}`;
      const stepCount = group ? this.#dice.between(2, 4) : 1;
      const intention: Intention = {
        name,
        lane: `lane${this.#dice.between(0, 2)}`,
        group,
        steps: Array.from({ length: stepCount }, (_, step) => ({
          name: group ? `${name}.${step}` : name,
          undo: `${name}.${step}.undo`,
        })),
        key: `key-${i}`,
        refused: this.#dice.chance(0.2),
        id: null,
        edit: null,
        cancel: null,
        order: -1,
      };
      this.intentions.push(intention);
      this.#time.after(this.#dice.between(0, 20_000), () => void this.#enqueue(intention));
    }
  }

  get isQueued(): boolean {
    return this.intentions.every((intention) => intention.id !== null);
  }

  /** Tries in whatever tab is open until one says that it is stored; the key makes that safe. */
  async #enqueue(intention: Intention): Promise<void> {
    while (intention.id === null) {
      const tab = this.#anyTab();
      if (tab === null) {
        await this.#time.sleep(100);
        continue;
      }
      const attempt = this.#enqueueIn(tab, intention).then(
        ({ id }) => {
          if (intention.id !== null) return;
          intention.id = id;
          intention.order = this.#acknowledged++;
        },
        () => {},
      );
      // A killed tab never answers; the user looks again after a while.
      await Promise.race([attempt, this.#time.sleep(2_000)]);
    }
    this.#maybeChange(intention);
  }

  #enqueueIn(tab: Tab, intention: Intention): Promise<{ id: string }> {
    const { lane, key, steps, group, refused } = intention;
    const request = (name: string, refuse = false) => ({
      url: 'https://api.test/do',
      json: { name, lane, refuse } satisfies Command,
    });
    if (!group) return tab.outbox.enqueue(request(steps[0]?.name ?? '', refused), { lane, key });
    return tab.outbox.enqueueGroup(
      steps.map(({ name, undo }, i) => ({
        ...request(name, refused && i === steps.length - 1),
        undo: request(undo),
      })),
      { lane, key },
    );
  }

  #maybeChange(intention: Intention): void {
    const delay = this.#dice.between(0, this.#dice.pick([3_000, 50_000]));
    if (this.#dice.chance(0.15) && !intention.group) {
      this.#time.after(delay, () => void this.#edit(intention));
    } else if (this.#dice.chance(0.15)) {
      this.#time.after(delay, () => void this.#cancel(intention));
    }
  }

  async #edit(intention: Intention): Promise<void> {
    const tab = this.#anyTab();
    if (tab === null || intention.id === null) return;
    const edit: NonNullable<Intention['edit']> = {
      name: `${intention.name}.edited`,
      result: 'unheard',
    };
    intention.edit = edit;
    const json = { name: edit.name, lane: intention.lane, refuse: false } satisfies Command;
    try {
      edit.result = await tab.outbox.edit(intention.id, { url: 'https://api.test/do', json });
    } catch {
      // The user does not know, and the checkers allow both.
    }
  }

  async #cancel(intention: Intention): Promise<void> {
    const tab = this.#anyTab();
    if (tab === null || intention.id === null) return;
    intention.cancel = 'unheard';
    try {
      intention.cancel = await tab.outbox.cancel(intention.id);
    } catch {
      // As above.
    }
  }

  #anyTab(): Tab | null {
    const { tabs } = this.#device;
    return tabs.length === 0 ? null : this.#dice.pick(tabs);
  }
}
